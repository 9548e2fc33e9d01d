"""The TLB hook: faster runs with the same result."""

from __future__ import annotations

import platform

import pytest
from unicorn import Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_LR,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_ARM64_REG_X3,
)
from unicorn.unicorn_const import (
    UC_ARCH_ARM64,
    UC_ARCH_X86,
    UC_MEM_FETCH,
    UC_MEM_READ,
    UC_MEM_WRITE,
    UC_MODE_64,
    UC_MODE_ARM,
    UC_PROT_ALL,
    UC_PROT_EXEC,
    UC_PROT_READ,
    UC_PROT_WRITE,
)
from unicorn.x86_const import (
    UC_X86_REG_RAX,
    UC_X86_REG_RCX,
    UC_X86_REG_RDX,
    UC_X86_REG_RSI,
    UC_X86_REG_RSP,
)

from dynftrace.core.machine.native import hook_code, native_hook
from dynftrace.core.machine.scheduler import SLICE_NS

from .guest import CLOCK, DATA, TEXT, Guest

CODE, ENTRY, HOME = 0x10000, 0x11000, 0x12000
PAGE = 0xFFFF_FFFF_8100_3000


@pytest.mark.parametrize("host", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (UC_MEM_READ, UC_PROT_READ | UC_PROT_WRITE),
        (UC_MEM_WRITE, UC_PROT_READ | UC_PROT_WRITE),
        (UC_MEM_FETCH, UC_PROT_READ | UC_PROT_EXEC),
    ],
)
def test_the_hooks_of_all_hosts_fill_an_entry(host: str, access: int, expected: int) -> None:
    code = hook_code(host, "tlb")
    assert code is not None
    arm = host == "aarch64"
    uc = Uc(*((UC_ARCH_ARM64, UC_MODE_ARM) if arm else (UC_ARCH_X86, UC_MODE_64)))
    uc.mem_map(CODE, 0x4000, UC_PROT_ALL)
    uc.mem_write(CODE, code)
    uc.mem_write(HOME + 0x800, HOME.to_bytes(8, "little"))
    if arm:
        uc.reg_write(UC_ARM64_REG_LR, HOME)
        places = (UC_ARM64_REG_X1, UC_ARM64_REG_X2, UC_ARM64_REG_X3)
    else:
        uc.reg_write(UC_X86_REG_RSP, HOME + 0x800)
        places = (UC_X86_REG_RSI, UC_X86_REG_RDX, UC_X86_REG_RCX)
    for register, value in zip(places, (PAGE, access | 0xDEAD << 32, ENTRY), strict=True):
        uc.reg_write(register, value)
    uc.emu_start(CODE, HOME, count=20)
    assert int.from_bytes(uc.mem_read(ENTRY, 8), "little") == PAGE
    assert int.from_bytes(uc.mem_read(ENTRY + 8, 4), "little") == expected
    result = uc.reg_read(UC_ARM64_REG_X0 if arm else UC_X86_REG_RAX)
    assert result & 0xFF == 1


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64") or platform.system() != "Linux",
    reason="hook of this host",
)
def test_this_host_uses_the_hook() -> None:
    assert native_hook("tlb") is not None


@pytest.mark.parametrize("native", [None, False])
def test_self_modifying_code_takes_effect_at_once(native: bool | None) -> None:
    guest = Guest(native_clock=native)
    guest.put("f", 0x3000, "mov eax, 0; ret")
    guest.boot(
        f"mov rbx, {TEXT + 0x3001}; l: inc ecx; mov [rbx], ecx; call {TEXT + 0x3000};"
        f"add rsi, rax; cmp ecx, 300; jne l; m: jmp m"
    )
    guest.machine.run(4 * SLICE_NS)
    assert guest.register("rsi") == 300 * 301 // 2


@pytest.mark.parametrize("native", [None, False])
@pytest.mark.parametrize("place", [CLOCK, DATA + 0x100000, 0])
def test_read_only_and_unmapped_memory_still_faults(place: int, native: bool | None) -> None:
    guest = Guest(native_clock=native)
    guest.boot(f"mov rbx, {place}; mov [rbx], rax")
    guest.machine.run(SLICE_NS)
    (oops,) = guest.machine.oopses
    assert f"address: {place:016x}" in str(oops)
