"""Virtual time: counted in bytes of code, identically by machine code and by Python."""

from __future__ import annotations

import ctypes
import platform

import pytest
from unicorn import Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_LR,
    UC_ARM64_REG_PC,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_ARM64_REG_X3,
)
from unicorn.unicorn_const import (
    UC_ARCH_ARM64,
    UC_ARCH_X86,
    UC_MODE_64,
    UC_MODE_ARM,
    UC_PROT_ALL,
)
from unicorn.x86_const import (
    UC_X86_REG_RCX,
    UC_X86_REG_RDI,
    UC_X86_REG_RDX,
    UC_X86_REG_RIP,
    UC_X86_REG_RSI,
    UC_X86_REG_RSP,
)

from dynftrace.core.machine.clock import EXECUTED
from dynftrace.core.machine.native import hook_code, native_hook
from dynftrace.core.machine.scheduler import SLICE_NS

from .guest import CLOCK, TEXT, Guest

LOOP = "l: inc rax; add rbx, 3; cmp al, 10; jne m; nop; m: call f; jmp l; f: imul rcx, rax; ret"


def run_slices(native: bool | None) -> list[tuple[int, dict[str, int]]]:
    guest = Guest(native_clock=native)
    guest.boot(LOOP)
    seen = []
    for _ in range(12):
        guest.machine.run(SLICE_NS)
        seen.append((guest.machine.vcpus[0].ticks, guest.machine.registers(0)))
    return seen


def test_machine_code_and_python_count_and_stop_alike() -> None:
    assert run_slices(native=None) == run_slices(native=False)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64") or platform.system() != "Linux",
    reason="hook of this host",
)
def test_this_host_uses_the_machine_code_hook() -> None:
    assert native_hook("block") is not None
    assert Guest().machine.vcpus[0].native_clock
    assert not Guest(native_clock=False).machine.vcpus[0].native_clock


def test_a_block_counts_its_bytes_unless_it_stops_the_run() -> None:
    guest = Guest()
    guest.boot("nop; nop; jmp n; n: nop; l: jmp l")  # 7 + 1 + 1 + 2 bytes, then 1 + 2, then 2 each
    vcpu = guest.machine.vcpus[0]
    vcpu.run(11)
    assert (vcpu.ticks, guest.register("rip")) == (11, TEXT + 11)
    vcpu.run(12)
    assert (vcpu.ticks, guest.register("rip")) == (14, TEXT + 12)
    vcpu.run(15)
    assert (vcpu.ticks, guest.register("rip")) == (16, TEXT + 12)


@pytest.mark.parametrize("native", [None, False])
def test_the_guest_reads_its_clock_and_cannot_write_it(native: bool | None) -> None:
    guest = Guest(native_clock=native)
    guest.boot(f"mov rbx, {CLOCK}; jmp n; n: mov rax, [rbx]; jmp m; m: mov [rbx], rax")
    guest.machine.run(SLICE_NS)
    assert guest.register("rax") == 7 + 7 + 2 + 3 + 2  # a block is counted when it starts
    (oops,) = guest.machine.oopses
    assert "page fault" in str(oops)
    assert int(guest.machine.vcpus[0].clock["ticks"]) == guest.machine.vcpus[0].ticks


def test_slices_do_not_depend_on_the_lengths_of_runs() -> None:
    def total(pieces: list[int]) -> tuple[dict[str, int], int]:
        guest = Guest()
        guest.boot(LOOP)
        for piece in pieces:
            guest.machine.run(piece)
        while guest.machine.now < 3_900_000:
            guest.machine.run(1)
        return guest.machine.registers(0), guest.machine.now

    assert total([10] * 40) == total([1_700_000])


CONTROL = 0x100000
CODE = 0x200000
STOP = 0x300000


def call_hook(host: str, swap: bool, ticks: int, deadline: int, request: int, size: int) -> Uc:
    """Run the hook of `host` in an emulator until it returns or stops; return the emulator."""
    code = hook_code(host, "block", swap)
    assert code is not None
    arm = host == "aarch64"
    uc = Uc(*((UC_ARCH_ARM64, UC_MODE_ARM) if arm else (UC_ARCH_X86, UC_MODE_64)))
    for base in (CONTROL, CODE, STOP):
        uc.mem_map(base, 0x3000 + EXECUTED, UC_PROT_ALL)
    uc.mem_write(CODE, code)
    words = (ticks, deadline, STOP)
    uc.mem_write(CONTROL, b"".join(word.to_bytes(8, "little") for word in words))
    uc.mem_write(CONTROL + 8192, request.to_bytes(4, "little"))
    uc.mem_write(STOP + 0x2000, (STOP + 0x100).to_bytes(8, "little"))
    dirty = size | 0xDEAD << 32  # the upper half of a 32-bit argument is undefined
    if arm:
        registers = (UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2, UC_ARM64_REG_X3)
        uc.reg_write(UC_ARM64_REG_LR, STOP + 0x100)
        uc.reg_write(UC_ARM64_REG_SP, STOP + 0x2000)
    else:
        registers = (UC_X86_REG_RDI, UC_X86_REG_RSI, UC_X86_REG_RDX, UC_X86_REG_RCX)
        uc.reg_write(UC_X86_REG_RSP, STOP + 0x2000)
    for register, value in zip(registers, (0x77, TEXT, dirty, CONTROL), strict=True):
        uc.reg_write(register, value)
    uc.ctl_exits_enabled(True)
    uc.ctl_set_exits([STOP, STOP + 0x100])
    uc.emu_start(CODE, 0, count=100)
    return uc


@pytest.mark.parametrize("host", ["x86_64", "aarch64"])
@pytest.mark.parametrize("swap", [False, True])
def test_the_hooks_of_all_hosts_count_and_stop(host: str, swap: bool) -> None:
    pc = UC_ARM64_REG_PC if host == "aarch64" else UC_X86_REG_RIP
    first = UC_ARM64_REG_X0 if host == "aarch64" else UC_X86_REG_RDI

    uc = call_hook(host, swap, ticks=0x1_0000_0000, deadline=0x1_0000_0001, request=0, size=300)
    assert uc.reg_read(pc) == STOP + 0x100  # returned
    counted = 0x1_0000_0000 + 300
    assert int.from_bytes(uc.mem_read(CONTROL, 8), "little") == counted
    order = "big" if swap else "little"
    assert int.from_bytes(uc.mem_read(CONTROL + 4096, 8), order) == counted
    executed = bytearray(EXECUTED)
    executed[TEXT % EXECUTED] = 1
    assert uc.mem_read(CONTROL + 12288, EXECUTED) == executed

    for ticks, request in ((500, 0), (501, 0), (1 << 63, 0), (10, 1)):
        uc = call_hook(host, swap, ticks=ticks, deadline=500, request=request, size=300)
        assert uc.reg_read(pc) == STOP
        assert uc.reg_read(first) == 0x77  # uc_emu_stop(uc)
        assert int.from_bytes(uc.mem_read(CONTROL, 8), "little") == ticks


def test_an_unknown_host_has_no_machine_code_hook() -> None:
    assert hook_code("vax", "block") is None
    assert ctypes.sizeof(ctypes.c_void_p) == 8 or native_hook("block") is None
