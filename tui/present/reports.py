"""The reports that open a box: an `ftrace_bug`, an oops of the guest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap

from ...core.errors import FtraceBug, GuestOops
from ...core.views.call_site import Code
from ...core.views.disasm import Insn
from .call_site import byte_spans
from .line import Line, line
from .view import Report

_WIDTH = 66
"""Width of a sentence in the box, in cells, on a terminal of 80 columns."""

_NEXT = (
    "Nothing was written. As after every such bug, ftrace_disabled is set: "
    "ftrace stays off until the machine is rebooted (R)."
)

Decoder = Callable[[int, bytes], Sequence[tuple[Insn, str]]]
"""Takes an address and bytes; returns their instructions, each with its text."""


def bug_report(bug: FtraceBug, decode: Decoder, symbol: Callable[[int], str]) -> Report:
    """Return the expected and the found text, instruction by instruction.

    `symbol` returns the name of an address, as `%pS` prints it.
    """
    lines: list[Line] = [
        line(("! ", "bad"), (f"{bug.failure} ", "bad")),
        line("  ", (f"[<{bug.ip:08x}>]", ""), f" {bug.symbol}"),
    ]
    if bug.type is not None:
        lines.append(line(f"  {bug.type.value}"))
    lines.append(line(""))
    if bug.address != bug.ip:
        lines += [line(("  at ", "dim"), f"[<{bug.address:08x}>] {symbol(bug.address)}"), line("")]
    if bug.expected:
        lines += _code("expected", bug.address, bug.expected, bug.expected, decode)
    if bug.found:
        lines += _code("found", bug.address, bug.found, bug.expected or bug.found, decode)
    lines += [line((f"  {text}", "bad")) for text in wrap(bug.reason, _WIDTH)]
    lines.append(line(""))
    lines += [line(f"  {text}") for text in wrap(_NEXT, _WIDTH)]
    return Report("ftrace refused to patch", tuple(lines), "\n".join(bug.report), bug.ip)


def _code(word: str, address: int, data: bytes, expected: bytes, decode: Decoder) -> Iterator[Line]:
    """Yield the instructions of `data`; a byte that differs from `expected` has a `*` after it."""
    insns = decode(address, data)
    width = 3 * max((len(insn.data) for insn, _ in insns), default=0)
    tone = "good" if data == expected else "bad"
    yield line((f"  {word}", tone if word == "found" else "good"))
    for insn, text in insns:
        at = insn.address - address
        right = expected[at : at + len(insn.data)]
        yield line(
            "    ",
            (f"{insn.address:08x}  ", "dim"),
            *byte_spans(Code(insn.data, text), Code(right, ""), width, "*"),
            (text, ""),
        )


def oops_report(oops: GuestOops, stopped: bool = True) -> Report:
    """Return the guest's own report, as dmesg shows it, after its cause.

    `stopped` says whether the CPU has stopped, and not only a call.
    """
    rest = oops.report[1:] if oops.report[:1] == (str(oops),) else oops.report
    cause = [oops.cause] if oops.cause else []
    lines = [line((f"! {each}", "bad")) for each in (*cause, str(oops))]
    lines += [line(each) for each in rest]
    end = f"CPU {oops.cpu} has stopped; the other CPUs keep running. R reboots the machine."
    lines += [line(""), line(end if stopped else "The call has ended; other calls still work.")]
    text = "\n".join([*cause, str(oops), *rest])
    return Report(f"CPU {oops.cpu} oopsed", tuple(lines), text, oops.pc)
