"""Reports for the box: an `ftrace_bug`, a guest's oops."""

from __future__ import annotations

import errno
from collections.abc import Callable
from textwrap import wrap

from ..core.errors import FtraceBug, GuestOops
from .spans import Line, line
from .view import Report

_WIDTH = 68
"""Cells of a sentence in the box, on a terminal of 80 columns."""

_WORDS = {
    errno.EFAULT: "ftrace faulted on modifying",
    errno.EPERM: "ftrace faulted on writing",
}


def bug_report(bug: FtraceBug, disassembly: Callable[[int, bytes], str]) -> Report:
    """What ftrace expected and what it found; `disassembly(address, data)` is text of code."""
    lines: list[Line] = [
        line(("! ", "bad"), (f"{_WORDS.get(bug.errno, 'ftrace failed to modify')} ", "bad")),
        line("  ", (f"[<{bug.ip:08x}>]", ""), f" {bug.symbol}"),
        line(""),
    ]
    if bug.address != bug.ip:
        lines.append(line("  at        ", f"{bug.address:08x}"))
    for word, data in (("expected", bug.expected), ("found", bug.found)):
        if data:
            text = disassembly(bug.address, data)
            tone = "bad" if word == "found" else "good"
            lines.append(line((f"  {word:<9} ", "dim"), (f"{data.hex(' '):<23}  ", tone), text))
    lines += [line((f"  {text}", "bad")) for text in wrap(bug.reason, _WIDTH)]
    lines += [
        line(""),
        line("  nothing was written; ftrace is off until the machine is rebooted (R)"),
    ]
    return Report("ftrace refused to patch", tuple(lines), "\n".join(bug.report), bug.ip)


def oops_report(oops: GuestOops) -> Report:
    """The machine's own report, as dmesg has it."""
    rest = oops.report[1:] if oops.report[:1] == (str(oops),) else oops.report
    lines = [line((f"! {oops}", "bad")), *(line(each) for each in rest)]
    lines += [
        line(""),
        line(f"CPU {oops.cpu} has stopped; the others go on. R boots the machine again."),
    ]
    text = "\n".join([str(oops), *rest])
    return Report(f"CPU {oops.cpu} oopsed", tuple(lines), text, oops.pc)
