"""The trampoline pane's text: the way of a call, each hop verified, then decoded."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.path import Hop
from .spans import Line, Span, line

_NAME = 24
_LEAST_BYTES = 5


def path_lines(hops: Sequence[Hop]) -> tuple[Line, ...]:
    """The way in one line, a line for each hop with what was checked, then its code."""
    labels = max((len(hop.label) for hop in hops), default=0)
    names = min(max((len(hop.name) for hop in hops), default=0), _NAME)
    lines = [_way(hops), line("")]
    for hop in hops:
        sign: Span = ("✓ ", "good") if hop.verified else ("! ", "bad")
        lines.append(
            line(
                sign,
                f"{hop.label:<{labels}}  ",
                (f"{hop.address:x}  ", "dim"),
                (f"{hop.name:<{names}}  ", "link"),
                (hop.note, "dim" if hop.verified else "bad"),
            )
        )
    insns = [insn for hop in hops for insn, _ in hop.insns]
    width = 3 * max((len(insn.data) for insn in insns), default=_LEAST_BYTES)
    for hop in hops:
        lines += [line(""), line((hop.name, "link"))]
        lines += [
            line(
                (f"  {insn.address:x}  ", "dim"),
                f"{insn.data.hex(' '):<{width}} ",
                (text, "" if insn.target is None else "strong"),
            )
            for insn, text in hop.insns
        ]
    return tuple(lines)


def _way(hops: Sequence[Hop]) -> Line:
    """`site ─▶ ftrace_caller ─▶ …`; a site that calls nothing is cut off from the rest."""
    spans: list[Span] = []
    taken = True
    for number, hop in enumerate(hops):
        if number:
            spans.append((" ─▶ " if taken else "    ", "accent"))
        name = hop.name if number else f"site {hop.name}"
        tone = "bad" if not hop.verified else "strong" if taken else "dim"
        spans.append((name, tone))
        if number == 0 and hop.target is None:
            spans.append((" (nop)", "dim"))
            taken = False
    return tuple(spans)
