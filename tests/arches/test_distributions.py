"""Debian's kernels: functions and modules run without a boot, with right results, traced."""

from __future__ import annotations

import calendar
import hashlib
import struct
import zlib
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ..support.debian import unpacked

PORTS = {"amd64": "x86_64", "arm64": "arm64", "i386": "i386", "mipsel": "mipsel"}

SHA256 = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)


class User:
    """Somebody at the shell of a machine with one of these kernels."""

    def __init__(self, arch: str) -> None:
        top = unpacked(arch)
        (kernel,) = top.glob("boot/vmlinu[xz]-*")
        port = arches.load(PORTS[arch])
        self.tree = Path(next(top.glob("lib/modules/*")))
        self.session = Session.open(port, MachineSpec(kernel=kernel, cpus=1))
        self.order = "<" if port.facts.byteorder == "little" else ">"
        self.shell = Shell(self.session)

    def __call__(self, command: str) -> str:
        done = self.shell.execute(command)
        assert done.status == 0, (command, done.error)
        return done.output

    def call(self, command: str) -> int:
        """Call a function and return its result."""
        return int(self(f"call {command}").split("\n")[0].split(" = ")[1].split(" ")[0], 16)

    def buffer(self, name: str, size: int) -> bytes:
        """Return the first bytes of a buffer."""
        address, _ = self.session.boot.buffers.find(name)
        return self.session.boot.machine.memory.read(address, size)


@pytest.fixture(scope="module", params=PORTS)
def user(request: pytest.FixtureRequest) -> User:
    return User(request.param)


def test_functions_give_right_results(user: User) -> None:
    assert user.call("int_sqrt 144") == 12
    assert user.call("gcd 12 18") == 6
    assert user.call('strlen "hello"') == 5
    crc = user.call('crc32_le 0xffffffff "hello" 5') & 0xFFFF_FFFF
    assert crc ^ 0xFFFF_FFFF == zlib.crc32(b"hello")
    found = user.call('kallsyms_lookup_name "schedule"')
    assert found == user.session.boot.kallsyms.address("schedule")


def test_functions_are_named_as_the_kernel_names_them(user: User) -> None:
    names = user("cat available_filter_functions").splitlines()
    ips = user.session.boot.ftrace.records.table["ip"].tolist()
    user("mem alloc symbol 600")
    # The first sites are where several symbols of the linker script have one address.
    for row in (*range(20), *range(20, len(names), len(names) // 60)):
        user(f"call sprint_symbol @symbol {ips[row]:#x}")
        found = user.buffer("symbol", 600).partition(b"+")[0].decode()
        assert found == names[row] or names[row].startswith("__ftrace_invalid_address___")


def test_buffers_come_back(user: User) -> None:
    user("mem alloc ctx 128; mem alloc digest 32; mem alloc ranges 64; mem alloc text 64")
    state = struct.pack(f"{user.order}8I", *SHA256)
    user(f"mem write ctx {state.hex(' ')}")
    user('call sha256_update @ctx "abc" 3; call sha256_final @ctx @digest')
    assert user.buffer("digest", 32) == hashlib.sha256(b"abc").digest()
    user('call snprintf @text 64 "%d is %x" 5 255')
    assert user.buffer("text", 10) == b"5 is ff\0\0\0"
    if user.session.port.facts.pointer_size == 4:  # where a va_list is a pointer
        user("mem alloc values 16")
        values = struct.pack(f"{user.order}4I", 255, 5, 0, 0)
        user(f"mem write values {values.hex(' ')}")
        user('call vsnprintf @text 64 "%d is %x" @values')
        assert user.buffer("text", 10) == b"255 is 5\0\0"


def test_all_sites_are_patched_and_traced(user: User) -> None:
    assert len(user.session.boot.ftrace.records) > 29_000
    user("echo function_graph > current_tracer")
    user('call _printk "\\0016hello %d\\n" 7')
    trace = user("cat trace")
    assert "_printk() {" in trace and "vprintk_emit() {" in trace
    user("echo nop > current_tracer; echo > trace")


def test_a_module_runs_and_is_traced(user: User) -> None:
    user("modprobe crc7; modprobe isofs; mem alloc date 8")
    assert user.call('crc7_be 0 "123456789" 9') & 0xFF == 0x75 << 1
    user("mem write date 7e 0b 17 04 32 00 00")
    assert not user.session.boot.ftrace.disabled
    user("echo iso_date > set_ftrace_filter; echo function > current_tracer")
    expected = calendar.timegm((2026, 11, 23, 4, 50, 0))
    assert user.call("iso_date @date 0") & 0xFFFF_FFFF == expected
    assert ": iso_date <-" in user("cat trace")
    user("echo nop > current_tracer; echo > set_ftrace_filter")


def test_a_counter_reads_virtual_time(user: User) -> None:
    counters = {"arm64": "arch_counter_get_cntvct", "mipsel": "c0_hpt_read"}
    name = user.session.port.facts.name
    counter = counters.get(name, "read_tsc")
    restore = user.session.save()
    first = [user.call(f"{counter} 0") for _ in range(3)]
    restore()
    assert [user.call(f"{counter} 0") for _ in range(3)] == first
    assert first == sorted(set(first))
    assert first[-1] <= user.session.boot.machine.vcpus[0].ticks


def test_what_needs_a_boot_says_so(user: User) -> None:
    stepping = ("step", "next", "until schedule", "race schedule", "stack")
    for command in ("call schedule", *stepping, "sleep 1"):
        done = user.shell.execute(command)
        assert done.status == 1 and "the kernel has not booted" in done.error, command


def test_what_needs_hardware_stops_before_it(user: User) -> None:
    calls = {
        "x86_64": ("native_io_delay", "native_halt", "native_write_msr 16 1 0"),
        "i386": ("native_io_delay", "native_write_msr 16 1 0"),
        "arm64": ("cpu_do_idle", "cpu_switch_mm 0 0"),
        "mipsel": ("r4k_wait_irqoff", "mips_next_event 5 0"),
    }
    for call in calls[user.session.port.facts.name]:
        done = user.shell.execute(f"call {call}")
        assert f"{call.split()[0]}+" in done.error, done
        assert "cannot run here: `" in done.error and "needs hardware" in done.error


def test_code_that_the_boot_would_patch_runs(user: User) -> None:
    """It asks for random bits, and jumps to code beside the init code if a CPU may have them."""
    user("mem alloc random 8; call get_random_bytes @random 8")
    assert any(user.buffer("random", 8))


def test_an_allocator_that_is_not_set_up_is_named(user: User) -> None:
    result, remark = user("call __kmalloc 64 0xcc0").splitlines()
    assert result == "__kmalloc = 0x0 (0)"
    assert remark.startswith("kmalloc_slab+") and "has read 0 from" in remark
    assert user('call strcmp "a" "b"').count("\n") == 1, "nothing is missing there"


def test_a_stack_protector_is_not_taken_for_a_missing_pointer(user: User) -> None:
    user("modprobe libcrc32c")
    error = user.shell.execute('call crc32c 0 "123456789" 9').error
    assert "crypto_shash_update+" in error and "uses a NULL pointer, which it was given" in error
    user("mem alloc sum 32")
    # Where kallsyms have data, constants are no words that a boot may set.
    said = user('call sha256 "abc" 3 @sum')
    assert "padding" not in said
