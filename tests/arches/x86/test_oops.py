"""Fault reports, line by line in the x86 kernel's words."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.arches.x86 import oops
from dynftrace.core.crash import Access, Crash, Fault

TEXT = 0xFFFF_FFFF_8100_0000
WIDE, NARROW = (arches.load(name).facts for name in ("x86_64", "i386"))


def report(crash: Crash) -> tuple[str, ...]:
    """Return the lines of a report on x86-64."""
    return oops.report(crash, WIDE)


def crash(fault: Fault, rip: int = TEXT + 0x40, text: bytes = bytes(range(0x80))) -> Crash:
    registers = {each.name: row for row, each in enumerate(WIDE.abi.pt_regs, 0x10)}
    return Crash(
        fault=fault,
        count=2,
        cpu=1,
        pid=7,
        registers={**registers, "rip": rip, "rflags": 0x46, "rsp": TEXT + 0x10000},
        text=text,
        text_address=TEXT,
        stack=b"",
        trace=(TEXT + 0x105,),
        symbol=lambda address: f"sym+0x{address - TEXT:x}",
    )


def test_the_report_has_the_kernels_format() -> None:
    before = " ".join(f"{byte:02x}" for byte in range(0x40 - 42, 0x40))
    after = " ".join(f"{byte:02x}" for byte in range(0x41, 0x41 + 21))
    assert report(crash(Fault(Access.READ, 8))) == (
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "#PF: supervisor read access in kernel mode",
        "#PF: error_code(0x0000) - not-present page",
        "Oops: 0000 [#2] SMP",
        "CPU: 1 PID: 7",
        "RIP: ffffffff81000040 sym+0x40",
        f"Code: {before} <40> {after}",
        "RAX: 0000000000000010 RBX: 0000000000000011 RCX: 0000000000000012",
        "RDX: 0000000000000013 RSI: 0000000000000014 RDI: 0000000000000015",
        "RBP: 0000000000000016  R8: 0000000000000017  R9: 0000000000000018",
        "R10: 0000000000000019 R11: 000000000000001a R12: 000000000000001b",
        "R13: 000000000000001c R14: 000000000000001d R15: 000000000000001e",
        "RFLAGS: 0000000000000046 RSP: ffffffff81010000",
        "Call Trace:",
        " ? sym+0x105",
        "---[ end trace 0000000000000000 ]---",
    )


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            Fault(Access.WRITE, 0xFFFF_8880_DEAD_B000, mapped=True),
            (
                "BUG: unable to handle page fault for address: ffff8880deadb000",
                "#PF: supervisor write access in kernel mode",
                "#PF: error_code(0x0003) - permissions violation",
                "Oops: 0003 [#2] SMP",
            ),
        ),
        (
            Fault(Access.WRITE, TEXT + 0x10000 - 8),
            (
                "BUG: stack guard page was hit at ffffffff8100fff8 (stack is ffffffff81010000..)",
                "#PF: supervisor write access in kernel mode",
            ),
        ),
        (
            Fault(Access.FETCH),
            (
                "BUG: unable to handle page fault",
                "#PF: supervisor instruction fetch in kernel mode",
                "#PF: error_code(0x0010) - not-present page",
                "Oops: 0010 [#2] SMP",
            ),
        ),
        (Fault(Access.ILLEGAL), ("invalid opcode: 0000 [#2] SMP", "CPU: 1 PID: 7")),
        (Fault(Access.INTERRUPT, detail="no stack"), ("double fault: no stack: 0000 [#2] SMP",)),
        (Fault(Access.OTHER, detail="unexpected"), ("unexpected: 0000 [#2] SMP",)),
        (Fault(Access.OTHER), ("unhandled exception: 0000 [#2] SMP",)),
    ],
)
def test_the_report_describes_the_fault(fault: Fault, lines: tuple[str, ...]) -> None:
    assert report(crash(fault))[: len(lines)] == lines


@pytest.mark.parametrize(
    ("rip", "text", "code"),
    [
        (TEXT + 1, b"\x90\xcc", "Code: 90 <cc>"),
        (TEXT, b"\xcc", "Code: <cc>"),
        (0x10, b"", "Code: Unable to access opcode bytes at 0xffffffffffffffe6."),
    ],
)
def test_code_at_the_end_of_memory_is_reported(rip: int, text: bytes, code: str) -> None:
    assert code in report(crash(Fault(Access.ILLEGAL), rip, text))


def test_a_32_bit_report_has_the_kernels_format() -> None:
    text = 0xC100_0000
    general = ("eax", "ebx", "ecx", "edx", "esi", "edi", "ebp")
    registers = {name: 0x10 + row for row, name in enumerate(general)}
    registers |= {"eip": text + 1, "eflags": 0x46, "esp": 0xD000_0010}
    assert oops.report(
        Crash(
            fault=Fault(Access.WRITE, 0xD000_0008),
            count=1,
            cpu=0,
            pid=3,
            registers=registers,
            text=b"\x90\xc3\xcc",
            text_address=text,
            stack=b"",
            trace=(text + 0x105,),
            symbol=lambda address: f"sym+0x{address - text:x}",
        ),
        NARROW,
    ) == (
        "BUG: stack guard page was hit at d0000008 (stack is d0000010..)",
        "#PF: supervisor write access in kernel mode",
        "#PF: error_code(0x0002) - not-present page",
        "Oops: 0002 [#1] SMP",
        "CPU: 0 PID: 3",
        "EIP: sym+0x1",
        "Code: 90 <c3> cc",
        "EAX: 00000010 EBX: 00000011 ECX: 00000012 EDX: 00000013",
        "ESI: 00000014 EDI: 00000015 EBP: 00000016 ESP: d0000010",
        "EFLAGS: 00000046",
        "Call Trace:",
        " ? sym+0x105",
        "---[ end trace 0000000000000000 ]---",
    )
