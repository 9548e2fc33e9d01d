"""Reports for the box."""

from __future__ import annotations

import errno

from dynftrace.core.errors import FtraceBug, GuestOops
from dynftrace.tui.report import bug_report, oops_report
from dynftrace.tui.spans import plain

IP = 0xFFFF_FFFF_8100_0040


def test_a_refused_patch() -> None:
    bug = FtraceBug(
        IP,
        errno=errno.EINVAL,
        expected=b"\x0f\x1f\x44\x00\x00",
        found=b"\xeb\xfe\x90\x90\x90",
        symbol="schedule+0x0/0x80",
        reason="Not expected bl: opcode is 90909090",
        report=("------------[ ftrace bug ]------------", "ftrace failed to modify "),
    )
    report = bug_report(bug, lambda address, data: {0x0F: "nop", 0xEB: "jmp ."}[data[0]])
    text = [plain(each) for each in report.lines]
    assert text[0] == "! ftrace failed to modify "
    assert text[1] == "  [<ffffffff81000040>] schedule+0x0/0x80"
    assert "  expected  0f 1f 44 00 00           nop" in text
    assert "  found     eb fe 90 90 90           jmp ." in text
    assert "  Not expected bl: opcode is 90909090" in text
    assert text[-1].startswith("  nothing was written; ftrace is off until")
    assert report.ip == IP
    assert report.copy == "------------[ ftrace bug ]------------\nftrace failed to modify "


def test_the_place_is_told_when_it_is_a_trampoline() -> None:
    bug = FtraceBug(IP, errno=errno.EFAULT, address=IP + 0x100, symbol="f")
    text = [plain(each) for each in bug_report(bug, lambda address, data: "").lines]
    assert text[0] == "! ftrace faulted on modifying "
    assert "  at        ffffffff81000140" in text


def test_an_oops() -> None:
    oops = GuestOops("invalid opcode", cpu=1, pc=IP, report=("RIP: schedule+0x5", "Call Trace:"))
    report = oops_report(oops)
    text = [plain(each) for each in report.lines]
    assert text[0] == "! invalid opcode"
    assert "RIP: schedule+0x5" in text
    assert report.title == "CPU 1 oopsed"
    assert report.copy == "invalid opcode\nRIP: schedule+0x5\nCall Trace:"
