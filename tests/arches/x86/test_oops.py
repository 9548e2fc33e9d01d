"""Reports of faults, line by line as the x86 kernel words them."""

from __future__ import annotations

import pytest

from dynftrace.arches.x86 import oops
from dynftrace.core.crash import Access, Crash, Fault

TEXT = 0xFFFF_FFFF_8100_0000
REGISTERS = {name: 0x10 + row for row, name in enumerate(("rax", "rbx", "rcx", "r8"))}


def crash(fault: Fault, rip: int = TEXT + 0x40, text: bytes = bytes(range(0x80))) -> Crash:
    return Crash(
        fault=fault,
        count=2,
        cpu=1,
        pid=7,
        registers={**REGISTERS, "rip": rip, "rflags": 0x46, "rsp": TEXT + 0x10000},
        text=text,
        text_address=TEXT,
        stack=b"",
        trace=(TEXT + 0x105,),
        symbol=lambda address: f"sym+0x{address - TEXT:x}",
    )


def test_the_whole_report() -> None:
    before = " ".join(f"{byte:02x}" for byte in range(0x40 - 42, 0x40))
    after = " ".join(f"{byte:02x}" for byte in range(0x41, 0x41 + 21))
    assert oops.report(crash(Fault(Access.READ, 8))) == (
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "#PF: supervisor read access in kernel mode",
        "#PF: not-present page",
        "Oops: 0000 [#2] SMP",
        "CPU: 1 PID: 7",
        "RIP: ffffffff81000040 sym+0x40",
        f"Code: {before} <40> {after}",
        "RAX: 0000000000000010 RBX: 0000000000000011 RCX: 0000000000000012",
        " R8: 0000000000000013 RFLAGS: 0000000000000046 RSP: ffffffff81010000",
        "Call Trace:",
        " sym+0x105",
        "---[ end trace of CPU 1 ]---",
    )


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            Fault(Access.WRITE, 0xFFFF_8880_DEAD_B000, mapped=True),
            (
                "BUG: unable to handle page fault for address: ffff8880deadb000",
                "#PF: supervisor write access in kernel mode",
                "#PF: permissions violation",
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
            ),
        ),
        (Fault(Access.ILLEGAL), ("invalid opcode: 0000 [#2] SMP", "CPU: 1 PID: 7")),
        (Fault(Access.INTERRUPT, detail="no stack"), ("double fault: no stack: 0000 [#2] SMP",)),
        (Fault(Access.OTHER, detail="unexpected"), ("unexpected: 0000 [#2] SMP",)),
        (Fault(Access.OTHER), ("unhandled exception: 0000 [#2] SMP",)),
    ],
)
def test_what_happened(fault: Fault, lines: tuple[str, ...]) -> None:
    assert oops.report(crash(fault))[: len(lines)] == lines


@pytest.mark.parametrize(
    ("rip", "text", "code"),
    [
        (TEXT + 1, b"\x90\xcc", "Code: 90 <cc>"),
        (TEXT, b"\xcc", "Code: <cc>"),
        (0x10, b"", "Code: Unable to access opcode bytes at 0x10."),
    ],
)
def test_code_that_ends(rip: int, text: bytes, code: str) -> None:
    assert code in oops.report(crash(Fault(Access.ILLEGAL), rip, text))
