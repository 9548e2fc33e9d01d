"""Fault reports, line by line in the MIPS kernel's words, and the traps that cause them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from unicorn import Uc, UcError
from unicorn.mips_const import UC_MIPS_REG_2, UC_MIPS_REG_PC
from unicorn.unicorn_const import UC_HOOK_INTR, UC_TLB_VIRTUAL

from dynftrace.arches.mips import oops
from dynftrace.arches.mips.mips32.port import FACTS as MIPS
from dynftrace.arches.mips.mips64.port import FACTS as MIPS64
from dynftrace.arches.mips.mipsel.port import FACTS as MIPSEL
from dynftrace.core.crash import Access, Crash, Fault
from dynftrace.core.facts import Facts

HIGH = 0xFFFF_FFFF_0000_0000
TEXT = 0x8020_0000
RAISED = {
    12: (0x8C43_0001, oops.ADDRESS_LOAD),  # lw v1, 1(v0)
    13: (0xAC43_0001, oops.ADDRESS_STORE),  # sw v1, 1(v0)
    17: (0x0000_000C, oops.SYSTEM_CALL),  # syscall
    18: (0x0000_000D, oops.BREAK),  # break
    20: (0x4C00_003F, oops.RESERVED),  # none
    21: (0x2043_7FFF, oops.OVERFLOW),  # addi v1, v0, 0x7fff
    22: (0x0000_0034, oops.TRAP),  # teq zero, zero
}


def crash(
    facts: Facts,
    fault: Fault,
    *,
    words: int = 32,
    epc: int | None = None,
    stack: bytes = b"",
    trace: tuple[int, ...] = (),
    sp: int = 0x8201_0FF0,
) -> Crash:
    """Report a fault in 32 words of code; by default epc is at the 17th."""
    high = HIGH if facts.pointer_size == 8 else 0
    base = high + TEXT
    registers = {each.name: number for number, each in enumerate(facts.abi.pt_regs)}
    named = {"sp": high + sp, "ra": base + 0x104, "pc": base + 0x40 if epc is None else epc}
    order = facts.byteorder
    return Crash(
        fault=fault,
        count=1,
        cpu=0,
        pid=5,
        registers={**registers, **named},
        text=b"".join((0x8C42_0000 + row).to_bytes(4, order) for row in range(words)),
        text_address=base if words else named["pc"],
        stack=stack,
        trace=trace,
        symbol=lambda address: f"sym+0x{address - base:x}",
    )


def test_a_32_bit_report_has_the_kernels_format() -> None:
    fault = Fault(Access.READ, 0x10)
    stack = b"".join((0x8020_0000 + row).to_bytes(4, "big") for row in range(64))
    lines = oops.report(crash(MIPS, fault, stack=stack, trace=(TEXT + 0x104, TEXT + 0x204)), MIPS)
    assert lines == (
        "CPU 0 Unable to handle kernel paging request at virtual address 00000010, "
        "epc == 80200040, ra == 80200104",
        "Oops[#1]:",
        "CPU: 0 PID: 5",
        "$ 0   : 00000000 00000001 00000002 00000003",
        "$ 4   : 00000004 00000005 00000006 00000007",
        "$ 8   : 00000008 00000009 0000000a 0000000b",
        "$12   : 0000000c 0000000d 0000000e 0000000f",
        "$16   : 00000010 00000011 00000012 00000013",
        "$20   : 00000014 00000015 00000016 00000017",
        "$24   : 00000018 00000019",
        "$28   : 0000001c 82010ff0 0000001e 80200104",
        "Hi    : 00000020",
        "Lo    : 00000021",
        "epc   : 80200040 sym+0x40",
        "ra    : 80200104 sym+0x104",
        "BadVA : 00000010",
        "Stack : 80200000 80200001 80200002 80200003",
        "Call Trace:",
        "[<80200040>] sym+0x40",
        "[<80200104>] sym+0x104",
        "[<80200204>] sym+0x204",
        "Code: 8c42000d  8c42000e  8c42000f <8c420010> 8c420011  8c420012  8c420013  8c420014 "
        " 8c420015",
        "---[ end trace 0000000000000000 ]---",
    )


def test_words_have_the_machines_byte_order() -> None:
    stack = (0x8020_0104).to_bytes(4, "little") * 4
    lines = oops.report(crash(MIPSEL, Fault(Access.READ, 0x10), stack=stack), MIPSEL)
    assert "Stack : 80200104 80200104 80200104 80200104" in lines
    assert any("<8c420010>" in line for line in lines)


def test_a_64_bit_report_has_longer_words() -> None:
    stack = (HIGH + 0x8020_0104).to_bytes(8, "big") * 5
    lines = oops.report(
        crash(MIPS64, Fault(Access.WRITE, 0x10), stack=stack, sp=0x8201_0FD8), MIPS64
    )
    assert lines[0] == (
        "CPU 0 Unable to handle kernel paging request at virtual address 0000000000000010, "
        "epc == ffffffff80200040, ra == ffffffff80200104"
    )
    assert lines[3] == f"$ 0   : {0:016x} {1:016x} {2:016x} {3:016x}"
    assert lines[9] == f"$24   : {24:016x} {25:016x}"
    at = lines.index("BadVA : 0000000000000010")
    word = "ffffffff80200104"
    assert lines[at + 1 : at + 3] == (f"Stack : {word} {word} {word} {word}", f"        {word}")


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        (Fault(Access.ILLEGAL, detail="no such"), "Reserved instruction in kernel code[#1]:"),
        (Fault(Access.OTHER, detail=oops.BREAK), "Break instruction in kernel code[#1]:"),
        (Fault(Access.OTHER, detail=oops.TRAP), "Trap instruction in kernel code[#1]:"),
        (Fault(Access.OTHER, detail=oops.OVERFLOW), "Integer overflow[#1]:"),
        (Fault(Access.OTHER, detail=oops.UNUSABLE), "do_cpu invoked from kernel context![#1]:"),
        (
            Fault(Access.OTHER, detail=oops.ADDRESS_LOAD),
            "Unhandled kernel unaligned access[#1]:",
        ),
        (Fault(Access.OTHER, detail="bad call of the machine"), "bad call of the machine[#1]:"),
        (Fault(Access.INTERRUPT, detail="no stack for it"), "no stack for it[#1]:"),
        (Fault(Access.INTERRUPT), "interrupt without a stack[#1]:"),
    ],
)
def test_the_report_describes_the_fault(fault: Fault, first: str) -> None:
    lines = oops.report(crash(MIPS, fault), MIPS)
    assert lines[0] == first
    assert not any(line.startswith("BadVA") for line in lines)


def test_an_access_without_an_address_is_reported() -> None:
    lines = oops.report(crash(MIPS, Fault(Access.WRITE)), MIPS)
    assert "virtual address ?, epc == 80200040" in lines[0]


def test_a_jump_to_unmapped_memory_is_reported() -> None:
    lines = oops.report(crash(MIPS, Fault(Access.FETCH, 0), epc=0, words=0, trace=(TEXT,)), MIPS)
    assert "at virtual address 00000000, epc == 00000000" in lines[0]
    at = lines.index("Call Trace:")
    assert lines[at + 1 : at + 3] == ("[<80200000>] sym+0x0", "Code: (Bad address in epc)")


@pytest.mark.parametrize(
    ("epc", "words", "code"),
    [
        (TEXT + 8, 32, "Code: (Bad address in epc)"),
        (
            TEXT + 12,
            5,
            "Code: 8c420000  8c420001  8c420002 <8c420003> 8c420004 (Bad address in epc)",
        ),
    ],
)
def test_code_at_the_edge_of_memory_is_reported(epc: int, words: int, code: str) -> None:
    lines = oops.report(crash(MIPS, Fault(Access.ILLEGAL), epc=epc, words=words), MIPS)
    assert lines[-2] == code


@pytest.mark.parametrize(
    ("sp", "words", "rows"),
    [
        (0x8201_0000, 64, ["Stack :"]),
        (
            0x8201_0100,
            400,
            ["Stack :" + 8 * " 00000000", *4 * [" " * 7 + 8 * " 00000000"], "        ..."],
        ),
        (0x8201_0FE8, 4, ["Stack :" + 4 * " 00000000" + " (Bad stack address)"]),
        (0x8201_0FF8, 0, ["Stack : (Bad stack address)"]),
        (0x8201_0FFE, 0, ["Stack :"]),
    ],
)
def test_the_stack_dump_ends_with_its_page(sp: int, words: int, rows: list[str]) -> None:
    lines = oops.report(crash(MIPS, Fault(Access.ILLEGAL), sp=sp, stack=bytes(4 * words)), MIPS)
    at = next(row for row, line in enumerate(lines) if line.startswith("Stack"))
    assert list(lines[at : lines.index("Call Trace:")]) == rows


@pytest.mark.parametrize("facts", [MIPS, MIPSEL, MIPS64], ids=lambda facts: facts.name)
@pytest.mark.parametrize("number", RAISED)
def test_the_emulators_exceptions_are_understood(facts: Facts, number: int) -> None:
    word, meaning = RAISED[number]
    assert facts.engine.traps[number].meaning == meaning
    assert facts.engine.traps[number].illegal == (number == 20)
    uc = Uc(facts.engine.uc_arch, facts.engine.uc_mode)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    start = TEXT + (HIGH if facts.pointer_size == 8 else 0)
    uc.mem_map(start, 8192)
    uc.mem_write(start, b"".join(each.to_bytes(4, facts.byteorder) for each in (0, word, 0)))
    uc.reg_write(UC_MIPS_REG_2, 0x7FFF_FFFF if number == 21 else start + 4096)
    seen: list[int] = []

    def trapped(uc: Uc, found: int, data: object) -> None:
        seen.append(found)
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, trapped)
    unaligned = pytest.raises(UcError, match="unaligned")
    with unaligned if number in (12, 13) else nullcontext():
        uc.emu_start(start, start + 12)
    assert seen == [number]
    if number == 17:
        assert uc.reg_read(UC_MIPS_REG_PC) - facts.engine.traps[number].reported_at == start + 4


def test_every_kernel_name_belongs_to_an_existing_trap() -> None:
    meanings = {trap.meaning for trap in oops.TRAPS.values()}
    assert len(meanings) == len(oops.TRAPS)
    for meaning in meanings - {oops.RESERVED, oops.SYSTEM_CALL}:
        fault = Fault(Access.OTHER, detail=meaning)
        assert meaning not in oops.report(replace(crash(MIPS, fault)), MIPS)[0]
