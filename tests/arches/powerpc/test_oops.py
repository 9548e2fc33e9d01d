"""Reports of faults, line by line as the PowerPC kernel words them, and the traps behind some."""

from __future__ import annotations

import pytest
from unicorn import Uc
from unicorn.ppc_const import UC_PPC_REG_3, UC_PPC_REG_PC
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_HOOK_INTR,
    UC_MODE_32,
    UC_MODE_64,
    UC_MODE_BIG_ENDIAN,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches.powerpc import oops
from dynftrace.core.crash import Access, Crash, Fault

TEXT32, TEXT64 = 0xC000_0000, 0xC000_0000_0000_0000


def crash(fault: Fault, base: int = TEXT32, *, nip: int | None = None, words: int = 32) -> Crash:
    """Thirty-two words of code from `base`, NIP at the seventeenth unless told otherwise."""
    registers = {f"r{number}": number for number in range(32)}
    named = {"ctr": base + 0x300, "lr": base + 0x104, "xer": 0x2000_0000, "cr": 0x2400_0288}
    return Crash(
        fault=fault,
        count=1,
        cpu=0,
        pid=5,
        registers={
            **registers,
            "r1": base + 0x1_0000,
            "nip": base + 0x40 if nip is None else nip,
            **named,
        },
        text=b"".join((0x6000_0000 + row).to_bytes(4, "big") for row in range(words)),
        text_address=base if words else base + 0x40,
        trace=(base + 0x104, base + 0x204),
        symbol=lambda address: f"sym+0x{address - base:x}",
    )


def test_the_whole_report_of_a_64_bit_machine() -> None:
    lines = oops.report(crash(Fault(Access.READ, 0x10), TEXT64), 8)
    assert lines[:15] == (
        "BUG: Kernel NULL pointer dereference on read at 0x00000010",
        "Faulting instruction address: 0xc000000000000040",
        "Oops: Kernel access of bad area, sig: 11 [#1]",
        "BE PAGE_SIZE=4K SMP",
        "CPU: 0 PID: 5",
        "NIP:  c000000000000040 LR: c000000000000104 CTR: c000000000000300",
        "CR: 24000288  XER: 20000000",
        "DAR: 0000000000000010",
        "GPR00: 0000000000000000 c000000000010000 0000000000000002 0000000000000003",
        "GPR04: 0000000000000004 0000000000000005 0000000000000006 0000000000000007",
        "GPR08: 0000000000000008 0000000000000009 000000000000000a 000000000000000b",
        "GPR12: 000000000000000c 000000000000000d 000000000000000e 000000000000000f",
        "GPR16: 0000000000000010 0000000000000011 0000000000000012 0000000000000013",
        "GPR20: 0000000000000014 0000000000000015 0000000000000016 0000000000000017",
        "GPR24: 0000000000000018 0000000000000019 000000000000001a 000000000000001b",
    )
    assert lines[15:] == (
        "GPR28: 000000000000001c 000000000000001d 000000000000001e 000000000000001f",
        "NIP [c000000000000040] sym+0x40",
        "LR [c000000000000104] sym+0x104",
        "Call Trace:",
        "[c000000000000104] sym+0x104",
        "[c000000000000204] sym+0x204",
        "Instruction dump:",
        "60000004 60000005 60000006 60000007 60000008 60000009 6000000a 6000000b",
        "6000000c 6000000d 6000000e 6000000f <60000010> 60000011 60000012 60000013",
        "---[ end trace 0000000000000000 ]---",
    )


def test_the_registers_of_a_32_bit_machine() -> None:
    lines = oops.report(crash(Fault(Access.ILLEGAL)), 4)
    assert lines[4:12] == (
        "NIP:  c0000040 LR: c0000104 CTR: c0000300",
        "CR: 24000288  XER: 20000000",
        "GPR00: 00000000 c0010000 00000002 00000003 00000004 00000005 00000006 00000007",
        "GPR08: 00000008 00000009 0000000a 0000000b 0000000c 0000000d 0000000e 0000000f",
        "GPR16: 00000010 00000011 00000012 00000013 00000014 00000015 00000016 00000017",
        "GPR24: 00000018 00000019 0000001a 0000001b 0000001c 0000001d 0000001e 0000001f",
        "NIP [c0000040] sym+0x40",
        "LR [c0000104] sym+0x104",
    )


BAD_AREA = "Oops: Kernel access of bad area, sig: 11 [#1]"
AT = "Faulting instruction address: 0xc0000040"


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            Fault(Access.WRITE, 0xD000_0000),
            ("BUG: Unable to handle kernel data access on write at 0xd0000000", AT, BAD_AREA),
        ),
        (
            Fault(Access.WRITE, TEXT32 + 0xFFF0),
            (
                "BUG: Unable to handle kernel data access on write at 0xc000fff0",
                AT,
                "Thread overran stack, or stack corrupted",
                BAD_AREA,
            ),
        ),
        (Fault(Access.READ), ("BUG: Unable to handle kernel data access on read", AT, BAD_AREA)),
        (
            Fault(Access.FETCH, TEXT32 + 0x40),
            ("BUG: Unable to handle kernel instruction fetch", AT, BAD_AREA),
        ),
        (
            Fault(Access.FETCH, TEXT32 + 0x40, mapped=True),
            (
                "kernel tried to execute exec-protected page (c0000040)",
                "BUG: Unable to handle kernel instruction fetch",
                AT,
                BAD_AREA,
            ),
        ),
        (
            Fault(Access.ILLEGAL, detail="no such"),
            ("no such", "Oops: Exception in kernel mode, sig: 4 [#1]"),
        ),
        (
            Fault(Access.OTHER, detail="bad call of the machine"),
            ("bad call of the machine", "Oops: Exception in kernel mode, sig: 5 [#1]"),
        ),
        (
            Fault(Access.INTERRUPT, detail="no stack"),
            (
                "Bad kernel stack pointer c0010000 at c0000040",
                "Oops: Bad kernel stack pointer, sig: 6 [#1]",
            ),
        ),
        (
            Fault(Access.OTHER, detail=oops.FLOATING_POINT),
            (
                "Unrecoverable FP Unavailable Exception 800 at c0000040",
                "Oops: Unrecoverable FP Unavailable Exception, sig: 6 [#1]",
            ),
        ),
        (
            Fault(Access.OTHER, detail=oops.ALIGNMENT),
            (
                "BUG: Unable to handle kernel unaligned access",
                AT,
                "Oops: Kernel access of bad area, sig: 7 [#1]",
            ),
        ),
    ],
)
def test_what_happened(fault: Fault, lines: tuple[str, ...]) -> None:
    assert oops.report(crash(fault), 4)[: len(lines)] == lines


def test_a_jump_to_nowhere() -> None:
    lines = oops.report(crash(Fault(Access.FETCH, 0), nip=0, words=0), 4)
    assert lines[0] == "BUG: Unable to handle kernel instruction fetch (NULL pointer?)"
    assert lines[-3:-1] == (" ".join(["XXXXXXXX"] * 8),) * 2


@pytest.mark.parametrize(
    ("nip", "words", "row"),
    [
        (TEXT32, 32, 8 * ["XXXXXXXX"]),
        (TEXT32 + 8, 3, ["XXXXXXXX", "60000000", "60000001", "<60000002>", "XXXXXXXX"]),
    ],
)
def test_code_that_begins_or_ends(nip: int, words: int, row: list[str]) -> None:
    lines = oops.report(crash(Fault(Access.ILLEGAL), nip=nip, words=words), 4)
    assert any(" ".join(row) in line for line in lines[-3:-1])


@pytest.mark.parametrize("mode", [UC_MODE_32, UC_MODE_64])
@pytest.mark.parametrize(
    ("number", "insn"),
    [
        (5, "7c801828"),  # lwarx r4, 0, r3
        (6, "7fe00008"),  # trap
        (7, "fc22102a"),  # fadd f1, f2, f2
        (8, "44000002"),  # sc
        (73, "10000000"),  # vaddubm v0, v0, v0
        (94, "f00007e4"),  # xvnegdp vs0, vs0
        (96, "00000000"),  # none
    ],
)
def test_the_emulator_reports_them_so(mode: int, number: int, insn: str) -> None:
    if number == 94 and mode == UC_MODE_32:
        pytest.skip("the 32-bit model has no VSX")
    uc = Uc(UC_ARCH_PPC, mode | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    start = TEXT32 if mode == UC_MODE_32 else TEXT64
    uc.mem_map(start, 4096)
    uc.mem_write(start, bytes.fromhex("60000000" + insn + "60000000"))
    uc.reg_write(UC_PPC_REG_3, start + 3)
    seen: list[int] = []

    def interrupt(uc: Uc, number: int, data: object) -> None:
        seen.append(number)
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, interrupt)
    uc.emu_start(start, start + 12)
    assert seen == [number]
    assert uc.reg_read(UC_PPC_REG_PC) == start + 4 + oops.TRAPS[number].reported_at
    assert oops.TRAPS[number].illegal == (number == 96)
