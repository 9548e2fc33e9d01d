"""events/syscalls, set_event and available_events: only enabled events are recorded."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

from dynftrace import arches
from dynftrace.core.abi import FIRST_EVENT_ID, FIRST_SYSCALL_ID, tracepoint
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.tracefs.events import EventFiles
from dynftrace.core.tracefs.syscalls import METADATA, NEEDED, TRACEPOINTS, Syscalls

Sh = Callable[[str], str]

CALLS = 31
"""System calls of the guest."""


def whats(text: str) -> list[str]:
    """Return the text after the time of each line of a trace."""
    return [line.split(": ", 1)[1] for line in text.splitlines() if not line.startswith("#")]


def enabled(session: Session) -> list[int]:
    """Return the guest's `enabled` words of sys_enter and sys_exit."""
    places = [session.boot.kallsyms.address(name) or 0 for name in TRACEPOINTS]
    return [session.boot.machine.memory.read_int(place, 4) for place in places]


def test_each_system_call_has_an_entry_and_an_exit_event(session: Session, sh: Sh) -> None:
    names = session.boot.tracefs.listdir("events/syscalls")
    assert len(names) == 2 + 2 * CALLS and names[:2] == ["enable", "filter"]
    for name in ("open", "newstat", "sched_yield", "exit"):
        assert {f"sys_enter_{name}", f"sys_exit_{name}"} <= set(names)
    assert session.boot.tracefs.listdir("events/syscalls/sys_exit_open") == [
        "enable",
        "filter",
        "format",
        "hist",
        "id",
        "trigger",
    ]
    ids = [int(sh(f"cat events/syscalls/{name}/id")) for name in names[2:]]
    assert len(set(ids)) == 2 * CALLS
    assert all(FIRST_SYSCALL_ID <= number < FIRST_EVENT_ID for number in ids)


def test_switches_reach_the_guest_and_agree(session: Session, sh: Sh) -> None:
    switches = (
        "cat events/enable events/syscalls/enable events/syscalls/sys_enter_open/enable "
        "events/syscalls/sys_exit_read/enable"
    )
    assert sh(switches) == "0\n0\n0\n0\n" and enabled(session) == [0, 0]
    sh("echo 1 > events/syscalls/sys_enter_open/enable")
    assert sh(switches) == "X\nX\n1\n0\n" and enabled(session) == [1, 0]
    sh("echo 1 > events/syscalls/sys_exit_read/enable")
    assert enabled(session) == [1, 1]
    sh("echo 0 > events/syscalls/sys_enter_open/enable")
    assert sh(switches) == "X\nX\n0\n1\n" and enabled(session) == [0, 1]
    sh("echo 1 > events/enable")
    assert sh(switches) == "1\n1\n1\n1\n" and enabled(session) == [1, 1]
    sh("echo 0 > events/enable")
    assert sh(switches) == "0\n0\n0\n0\n" and enabled(session) == [0, 0]
    assert "Invalid argument" in Shell(session).execute("echo 2 > events/syscalls/enable").error


def test_only_enabled_events_are_recorded(session: Session, sh: Sh) -> None:
    sh("run syscalls")
    assert not whats(sh("cat trace"))
    sh("echo 1 > events/syscalls/sys_enter_open/enable")
    sh("echo 1 > events/syscalls/sys_exit_unlink/enable; run syscalls")
    said = whats(sh("cat trace"))
    assert {what.split("(")[0].split(" ")[0] for what in said} == {"sys_open", "sys_unlink"}
    assert all(what == "sys_unlink -> 0x0" for what in said if "unlink" in what)
    assert all(what.startswith("sys_open(") for what in said if "open" in what)
    sh("echo 0 > events/syscalls/enable; echo > trace; run syscalls")
    assert not whats(sh("cat trace"))


def test_the_function_tracer_shows_them_inline(session: Session, sh: Sh) -> None:
    sh("echo 1 > events/syscalls/enable; echo do_syscall_64 sys_lseek > set_ftrace_filter")
    sh("echo function > current_tracer; run syscalls")
    lines = [line for line in sh("cat trace").splitlines() if not line.startswith("#")]
    task = re.compile(r"-(\d+) ")
    told = 0
    for at, line in enumerate(lines):
        if "sys_lseek(" not in line:
            continue
        number = task.findall(line)[0]
        own = [each.split(": ", 1)[1] for each in lines if task.findall(each)[0] == number]
        where = [each.split(": ", 1)[1] for each in lines[:at] if task.findall(each)[0] == number]
        around = own[len(where) - 1 : len(where) + 3]
        assert around[0].startswith("do_syscall_64 <-")
        assert around[1].startswith("sys_lseek(fd: ") and around[1].endswith(", offset: 0)")
        assert around[2:] == ["sys_lseek <-do_syscall_64", "sys_lseek -> 0x0"]
        told += 1
    assert told == 4


def test_in_a_graph_they_are_comments_in_the_dispatcher(session: Session, sh: Sh) -> None:
    sh("echo 1 > events/syscalls/sys_enter_sysinfo/enable")
    sh("echo 1 > events/syscalls/sys_exit_sysinfo/enable")
    sh("echo do_syscall_64 sys_sysinfo do_sysinfo > set_ftrace_filter")
    sh("echo function_graph > current_tracer")
    nr = next(
        e.event.syscall.nr for e in session.boot.array.syscalls if e.name == "sys_enter_sysinfo"
    )
    place = session.port.facts.map.host_stack + 0x10_0000
    session.boot.machine.memory.map(place, 0x1000, "test")
    assert session.call("do_syscall_64", [nr, place, 0, 0]) == 0
    shown = [re.sub(r"^[^|]*\|  ", "", line) for line in sh("cat trace").splitlines()[3:]]
    first = next(at for at, line in enumerate(shown) if "sys_sysinfo(" in line)
    assert shown[first - 1 : first + 6] == [
        "do_syscall_64() {",
        f"/* sys_sysinfo(info: {place:x}) */",
        "  sys_sysinfo() {",
        "    do_sysinfo();",
        "  }",
        "/* sys_sysinfo -> 0x0 */",
        "}",
    ]


@pytest.mark.parametrize("arch", ["x86_64", "ppc32", "mips64"])
def test_the_format_gives_the_offsets_of_the_values(arch: str) -> None:
    session = Session.open(arches.load(arch))
    sh = Shell(session).execute
    sh("echo syscalls:sys_enter_kill syscalls:sys_exit_kill > set_event")
    nr = next(e.event.syscall.nr for e in session.boot.array.syscalls if e.name == "sys_enter_kill")
    dispatcher = next(
        name for name in DISPATCHERS if session.boot.kallsyms.address(name) is not None
    )
    session.call(dispatcher, [nr, 77, 5, 0])
    cpu = next(cpu for cpu in session.boot.ring.cpus if session.boot.ring.in_buffer(cpu))
    data = session.boot.ring.pages(cpu)[0].tobytes()[16:]
    byteorder, long = session.port.facts.byteorder, session.port.facts.pointer_size

    def decode(event: str, at: int) -> dict[str, int]:
        text = sh(f"cat events/syscalls/{event}/format").output
        assert text.startswith(f"name: {event}\nID: ")
        return {
            name: int.from_bytes(
                data[at + int(offset) : at + int(offset) + int(size)],
                "little" if byteorder == "little" else "big",
                signed=signed == "1",
            )
            for name, offset, size, signed in re.findall(
                r"field:[\w *]+ (\w+);\toffset:(\d+);\tsize:(\d+);\tsigned:(\d);", text
            )
        }

    first = decode("sys_enter_kill", 4)
    assert first["common_type"] == int(sh("cat events/syscalls/sys_enter_kill/id").output)
    assert (first["__syscall_nr"], first["pid"], first["sig"]) == (nr, 77, 5)
    size = 8 + 3 * long
    second = decode("sys_exit_kill", 4 + size + 4)
    assert second["common_type"] == int(sh("cat events/syscalls/sys_exit_kill/id").output)
    assert (second["__syscall_nr"], second["ret"]) == (nr, -22)
    said = whats(sh("cat trace").output)
    assert said == ["sys_kill(pid: 4d, sig: 5)", f"sys_kill -> {(1 << 8 * long) - 22:#x}"]
    text = sh("cat events/syscalls/sys_enter_kill/format").output
    assert text.endswith(
        'print fmt: "pid: 0x%08lx, sig: 0x%08lx", '
        "((unsigned long)(REC->pid)), ((unsigned long)(REC->sig))\n"
    )


DISPATCHERS = ("do_syscall_64", "system_call_exception", "handle_sys64")


def test_a_follower_of_the_trace_reads_the_same(session: Session, sh: Sh) -> None:
    sh("echo 8 > buffer_size_kb; echo 1 > events/syscalls/enable; echo function > current_tracer")
    sh("echo 'sys_*' > set_ftrace_filter")
    for _ in range(4):
        sh("run syscalls; echo here > trace_marker")
        followed, whole = session.boot.array.follow(), session.boot.array.text()
        lines = whole.texts(0, len(whole))
        assert followed.texts(0, len(followed)) == lines
        assert sum("sys_read(fd: " in line for line in lines) > 4
    assert whole.context.written > len(whole)


def test_an_invalid_call_number_is_not_recorded(session: Session, sh: Sh) -> None:
    sh("echo 1 > events/syscalls/enable")
    assert session.call("do_syscall_64", [CALLS, 0, 0, 0]) == 2**64 - 38
    assert session.call("do_syscall_64", [2**63, 0, 0, 0]) == 2**64 - 38
    numbers = session.boot.array.ring.events().details.calls["nr"]
    assert ((numbers >= 0) & (numbers < CALLS)).all()


# set_event and available_events


def test_set_event_switches_by_name(session: Session, sh: Sh) -> None:
    sh("echo 'f:mine/x schedule' > dynamic_events")
    everything = sh("cat available_events").splitlines()
    assert sum(each.startswith("syscalls:") for each in everything) == 2 * CALLS
    assert everything[-1] == "mine:x"
    assert "syscalls:sys_enter_open" in everything
    assert sh("cat set_event") == ""
    sh("echo syscalls:sys_enter_open > set_event; echo sys_exit_open >> set_event")
    both = "syscalls:sys_enter_open\nsyscalls:sys_exit_open\n"
    assert sh("cat set_event") == both
    sh("echo mine: >> set_event")
    assert sh("cat set_event") == f"{both}mine:x\n"
    sh("echo '!syscalls:sys_exit_open' >> set_event")
    assert sh("cat set_event") == "syscalls:sys_enter_open\nmine:x\n"
    sh("echo 'mine:*' > set_event")
    assert sh("cat set_event") == "mine:x\n"
    sh("echo '*:*' > set_event")
    assert sh("cat set_event").splitlines() == everything
    sh("echo > set_event")
    assert sh("cat set_event") == "" and enabled(session) == [0, 0]
    for wrong in ("nosuch", "syscalls:nosuch", "nosuch:*", "!", "*"):
        assert "Invalid argument" in Shell(session).execute(f"echo '{wrong}' > set_event").error


def test_a_definition_may_not_reuse_a_syscall_event_name(session: Session, sh: Sh) -> None:
    outcome = Shell(session).execute("echo 'f:syscalls/sys_enter_open schedule' > dynamic_events")
    assert "already used by another event" in outcome.error
    sh("echo 'f:syscalls/mine schedule' > dynamic_events")
    assert "mine" in session.boot.tracefs.listdir("events/syscalls")


def test_a_reboot_disables_all_events(session: Session, sh: Sh) -> None:
    sh("echo 1 > events/enable; reboot")
    assert sh("cat events/enable set_event") == "0\n"


# Kernels with missing parts


class Names(Kallsyms):
    """The symbols of a machine, some moved or removed."""

    def __init__(self, known: Kallsyms, changed: dict[str, int | None]) -> None:
        super().__init__()
        self._known, self._changed = known, changed

    def address(self, name: str, module: str | None = None) -> int | None:
        if name in self._changed:
            return self._changed[name]
        return self._known.address(name, module)


def syscalls(session: Session, changed: dict[str, int | None]) -> Syscalls:
    names = Names(session.boot.kallsyms, changed)
    machine, ftrace, ring = session.boot.machine, session.boot.ftrace, session.boot.ring
    files, services = EventFiles(machine, None, session.boot.array.error_log), session.boot.array
    return Syscalls(machine, names, ftrace, ring, files, services)


def test_a_kernel_without_the_symbols_has_no_syscall_events(session: Session) -> None:
    assert len(list(syscalls(session, {}))) == 2 * CALLS
    for name in NEEDED:
        assert not list(syscalls(session, {name: None}))


def test_unmapped_tracepoints_give_no_events(session: Session) -> None:
    memory = session.boot.machine.memory
    text = memory.region_at(session.boot.kallsyms.address(TRACEPOINTS[0]) or 0)
    assert text is not None
    short = text.end - tracepoint("little").itemsize + 1
    for name in TRACEPOINTS:
        for address in (0, 8, 2**64 - 1, short):
            assert not list(syscalls(session, {name: address}))


@pytest.mark.parametrize("address", [0, 1, 2**64 - 8, 2**64 - 1])
def test_unmapped_metadata_gives_no_events(session: Session, address: int) -> None:
    assert not list(syscalls(session, {METADATA: address}))


KERNEL = r"""
#include "tracepoint.h"
struct tracepoint __tracepoint_sys_enter, __tracepoint_sys_exit;
static const struct syscall_metadata sum = {
    "sys_sum", 6, { "int", "int", "int", "int", "int", "const long *" },
    { "a", "b", "c", "d", "e", "f" } };
static const struct syscall_metadata none = { "sys_none", 0 };
const struct syscall_metadata *const syscalls_metadata[] = { &sum, &none, 0 };
__attribute__((noinline)) long sys_sum(const long *v) { return v[0] + v[1] + v[2] + v[3] + v[4]; }
long dispatch(long nr, long a, long b, long c, long d, long e)
{
    const long v[] = { a, b, c, d, e, a };
    long ret = -38;
    if (__tracepoint_sys_enter.enabled)
        ((sys_enter_func)__tracepoint_sys_enter.func)(nr, (const unsigned long *)v);
    if (nr < 2)
        ret = nr ? 0 : sys_sum(v);
    if (__tracepoint_sys_exit.enabled)
        ((sys_exit_func)__tracepoint_sys_exit.func)(nr, ret);
    return ret;
}
__asm__(".globl __fentry__\n__fentry__: ret");
"""


@pytest.mark.skipif(which("gcc") is None, reason="gcc is not installed")
def test_a_users_kernel_has_events_for_its_own_calls(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(KERNEL)
    include = Path(__file__).resolve().parents[3] / "arches" / "guest" / "include"
    gcc = (
        "gcc -O1 -fno-inline -ffreestanding -fno-pic -fno-stack-protector -mcmodel=kernel "
        "-fno-asynchronous-unwind-tables -mno-red-zone -mno-sse -fcf-protection=none -pg -mfentry "
        f"-mrecord-mcount -DCPU_LOCAL=0xffffffffff578000 -I{include} -c kernel.c -o kernel.o"
    )
    ld = "ld -static -e 0 -z noexecstack -Ttext=0xffffffff81000000 kernel.o -o kernel.elf"
    for command in (gcc, ld):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    spec = MachineSpec(kernel=tmp_path / "kernel.elf")
    session = Session.open(arches.load("x86_64"), spec)
    session.boot.tracefs.write("events/syscalls/enable", "1")
    assert session.call("dispatch", [0, 1, 2, 3, 4, 5]) == 15
    assert session.call("dispatch", [1, 0, 0, 0, 0, 0]) == 0
    assert session.call("dispatch", [500, 0, 0, 0, 0, 0]) == 2**64 - 38
    assert whats(session.boot.tracefs.read("trace")) == [
        "sys_sum(a: 1, b: 2, c: 3, d: 4, e: 5, f: 1)",
        *("sys_sum -> 0xf", "sys_none()", "sys_none -> 0x0"),
    ]
