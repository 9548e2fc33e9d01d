"""The addresses of faults in gaps, inside mapped memory, and across its end."""

from __future__ import annotations

import pytest
from unicorn import Uc, UcError
from unicorn.ppc_const import UC_PPC_REG_3
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_ARCH_X86,
    UC_MODE_32,
    UC_MODE_64,
    UC_MODE_BIG_ENDIAN,
    UC_PROT_READ,
    UC_TLB_VIRTUAL,
)
from unicorn.x86_const import UC_X86_REG_RAX

from dynftrace.core.crash import Access, Fault
from dynftrace.core.machine.faultwatch import FaultWatch

CODE, DATA, READ_ONLY = 0x10000, 0x20000, 0x30000
PAGE = 4096
LOAD, STORE = "48 8b 08", "48 89 08"  # mov rcx, [rax]; mov [rax], rcx


def fault(
    insn: str,
    address: int,
    unmap: bool = False,
    machine: tuple[int, int] = (UC_ARCH_X86, UC_MODE_64),
    register: int = UC_X86_REG_RAX,
    end: int = 1 << 64,
) -> Fault:
    uc = Uc(*machine)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    watch = FaultWatch(uc, end)
    for start in (CODE, DATA):
        uc.mem_map(start, PAGE)
        watch.mapped(start, start + PAGE)
    uc.mem_map(READ_ONLY, PAGE, UC_PROT_READ)
    watch.mapped(READ_ONLY, READ_ONLY + PAGE)
    if unmap:
        uc.mem_unmap(DATA, PAGE)
        watch.unmapped(DATA, DATA + PAGE)
    uc.mem_write(CODE, bytes.fromhex(insn))
    uc.reg_write(register, address)
    watch.clear()
    with pytest.raises(UcError) as caught:
        uc.emu_start(CODE, 0)
    return watch.fault(caught.value, CODE)


@pytest.mark.parametrize(
    ("insn", "address", "expected"),
    [
        (LOAD, 0, Fault(Access.READ, 0)),
        (LOAD, CODE - 0x100, Fault(Access.READ, CODE - 0x100)),
        (STORE, DATA + PAGE, Fault(Access.WRITE, DATA + PAGE)),
        (STORE, 2**64 - 16, Fault(Access.WRITE, 2**64 - 16)),
        (STORE, READ_ONLY + 8, Fault(Access.WRITE, READ_ONLY + 8, mapped=True)),
    ],
)
def test_the_address_of_a_fault_is_found(insn: str, address: int, expected: Fault) -> None:
    found = fault(insn, address)
    assert (found.access, found.address, found.mapped) == (
        expected.access,
        expected.address,
        expected.mapped,
    )


def test_unmapped_memory_is_a_gap_again() -> None:
    assert fault(LOAD, DATA + 8, unmap=True).address == DATA + 8


def test_an_access_across_the_end_of_memory_is_reported() -> None:
    found = fault(STORE, DATA + PAGE - 4)
    assert found.access is Access.WRITE
    assert found.address is not None
    assert DATA + PAGE - 4 <= found.address < DATA + PAGE + 4


@pytest.mark.parametrize(
    ("mode", "insn", "address", "expected"),
    [
        (UC_MODE_32, "80 83 00 08", 0, Fault(Access.READ, 8)),  # lwz r4, 8(r3)
        (UC_MODE_32, "90 83 00 08", 2**32 - 16, Fault(Access.WRITE, 2**32 - 8)),  # stw r4, 8(r3)
        (UC_MODE_64, "f8 83 00 08", READ_ONLY, Fault(Access.WRITE, READ_ONLY + 8, True)),  # std
        (UC_MODE_64, "e8 83 00 08", 2**64 - 24, Fault(Access.READ, 2**64 - 16)),  # ld r4, 8(r3)
    ],
)
def test_a_big_endian_engine_reports_the_address(
    mode: int, insn: str, address: int, expected: Fault
) -> None:
    engine = (UC_ARCH_PPC, mode | UC_MODE_BIG_ENDIAN)
    end = 1 << (32 if mode == UC_MODE_32 else 64)
    assert fault(insn, address, False, engine, UC_PPC_REG_3, end) == expected


def test_an_invalid_instruction_has_no_address() -> None:
    assert fault("0f 0b", 0) == Fault(Access.ILLEGAL, detail="illegal instruction")  # ud2
