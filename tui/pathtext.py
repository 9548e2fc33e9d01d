"""The trampoline pane's text: the way of a call, each hop verified, then decoded."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.views.disasm import Insn
from ..core.views.path import SITE, Hop
from .spans import Line, Span, fit, line, plain

_NAME = 32
_MOST_BYTES = 8
_WAY = 75
"""Cells of the way on one line: the pane has them, and a scrollbar, on 80 columns and on 200."""


def path_lines(hops: Sequence[Hop], note: Sequence[Line] = ()) -> tuple[Line, ...]:
    """The way of the call, a line for each hop with what was checked, `note`, then its code."""
    names = [f"{hop.label} {hop.name}" if hop.label == SITE else hop.name for hop in hops]
    width = min(max((len(name) for name in names), default=0), _NAME)
    digits = max((len(f"{hop.address:x}") for hop in hops), default=0)
    lines = [*_way(hops), line("")]
    for hop, name in zip(hops, names, strict=True):
        sign: Span = ("✓ ", "good") if hop.verified else ("! ", "bad")
        lines.append(
            line(
                sign,
                (fit(name, width) + "  ", "link"),
                (f"{hop.address:{digits}x}  ", "dim"),
                (hop.note, "dim" if hop.verified else "bad"),
                at=_address(hop),
            )
        )
    lines += note
    insns = [insn for hop in hops for insn, _ in hop.insns]
    width = 3 * min(max((len(insn.data) for insn in insns), default=0), _MOST_BYTES)
    for hop in hops:
        lines += [line(""), line((hop.name, "link"), at=_address(hop))]
        lines += [_code_line(hop, insn, text, digits, width) for insn, text in hop.insns]
    return tuple(lines)


def _code_line(hop: Hop, insn: Insn, text: str, digits: int, width: int) -> Line:
    """An instruction or a word of data, with `!` where it is not what ftrace keeps there."""
    address = f"{insn.address:{digits}x}  "
    data = insn.data.hex(" ")
    room = " " * (width + 1 - len(data))
    if hop.wrong(insn):
        spans: tuple[Span, ...] = (("! ", "bad"), (address, "dim"), (data, "mark"))
        return line(*spans, room, (text, "bad"), at=insn.address)
    tone = "" if insn.target is None else "strong"
    return line((f"  {address}", "dim"), data + room, (text, tone), at=insn.address)


def _address(hop: Hop) -> int | None:
    """Return the address of the first instruction of `hop`, or None if it has no memory."""
    return hop.address if hop.insns else None


def _way(hops: Sequence[Hop]) -> list[Line]:
    """`site ─▶ ftrace_caller ─▶ …`; what a call does not come to is cut off from the rest.

    That is all behind a site that calls nothing, or a hop that was damaged and leads elsewhere.
    """
    lines: list[list[Span]] = [[]]
    taken = True
    for number, hop in enumerate(hops):
        spans: list[Span] = []
        if number:
            spans.append((" ─▶ " if taken else "    ", "accent"))
        name = f"site {hop.name}" if hop.label == SITE else hop.name
        if not hop.verified:
            name = f"! {name}"
        following = hops[number + 1].address if number + 1 < len(hops) else None
        tone = "bad" if not hop.verified else "strong" if taken else "dim"
        spans.append((name, tone))
        if hop.label == SITE and hop.target is None:
            spans.append((" (nop)" if hop.verified else "", "dim"))
            taken = False
        elif not hop.verified and hop.target != following:
            taken = False
        if lines[-1] and len(plain([*lines[-1], *spans])) > _WAY:
            lines.append([(" ", "")])
        lines[-1] += spans
    return [line(*spans) for spans in lines]
