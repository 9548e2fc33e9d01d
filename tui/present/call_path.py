"""The lines of the Trampoline pane: the path of a call, and why and how stubs are part of it.

First the whole path on a line or two, then a line for each hop with what was verified, then
the code of each hop. For a module's call they also say why it cannot reach ftrace_caller
itself, and list the module's stubs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.views.disasm import Insn
from ...core.views.path import SITE, Hop
from ...core.views.stubs import StubView
from .line import Line, Span, fit, line, plain

_NAME = 32
"""Greatest width of a hop's name, in cells."""

_MOST_BYTES = 8
"""Bytes of an instruction that fit before its text."""

_WIDTH = 75
"""Width of the pane in cells, on terminals of 80 and of 200 columns, without the scrollbar."""


def path_lines(hops: Sequence[Hop], note: Sequence[Line] = ()) -> tuple[Line, ...]:
    """Return the path, a line for each hop with what was verified, `note`, and the code."""
    names = [f"{hop.label} {hop.name}" if hop.label == SITE else hop.name for hop in hops]
    width = min(max((len(name) for name in names), default=0), _NAME)
    digits = max((len(f"{hop.address:x}") for hop in hops), default=0)
    lines = [*_chain(hops), line("")]
    for hop, name in zip(hops, names, strict=True):
        tone = "dim" if hop.verified else "bad"
        lines.append(_hop_line(hop, fit(name, width), digits, (hop.note, tone)))
    lines += note
    insns = [insn for hop in hops for insn, _ in hop.insns]
    width = 3 * min(max((len(insn.data) for insn in insns), default=0), _MOST_BYTES)
    for hop in hops:
        lines += [line(""), line((hop.name, "link"), at=_address(hop))]
        lines += [_code_line(hop, insn, text, digits, width) for insn, text in hop.insns]
    return tuple(lines)


def reason_lines(reason: Sequence[str]) -> tuple[Line, ...]:
    """Return why the call cannot reach ftrace_caller itself; no lines if it can."""
    return tuple(line((f"  {each}", "accent")) for each in reason)


def stub_lines(module: str, stubs: Sequence[StubView]) -> tuple[Line, ...]:
    """Return a line for each stub of `module`: where it leads, and how many sites need it."""
    if not stubs:
        return ()
    width = min(max(len(stub.hop.name) for stub in stubs), _NAME)
    lines = [line(""), line((f"stubs of {module}", "strong"))]
    for stub in stubs:
        hop = stub.hop
        users = [
            f"{count} site{'' if count == 1 else 's'} {when}"
            for count, when in ((stub.compiled, "as compiled"), (stub.enabled, "when enabled"))
            if count
        ]
        said = ", ".join(users) if users and hop.verified else hop.note
        tone = "" if hop.verified else "bad"
        lines.append(_hop_line(hop, fit(hop.name, width), 0, (said, tone)))
    return tuple(lines)


def _hop_line(hop: Hop, name: str, digits: int, said: Span) -> Line:
    """Return a hop's name and address, with a sign that shows whether it was verified."""
    sign: Span = ("✓ ", "good") if hop.verified else ("! ", "bad")
    address = (f"{hop.address:{digits}x}  ", "dim")
    return line(sign, (f"{name}  ", "link"), address, said, at=_address(hop))


def _code_line(hop: Hop, insn: Insn, text: str, digits: int, width: int) -> Line:
    """Return an instruction or a word of data, with `!` if ftrace left something else there."""
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


def _chain(hops: Sequence[Hop]) -> list[Line]:
    """Return `site ─▶ ftrace_caller ─▶ …`, without arrows to the hops that a call does not reach.

    A call does not reach the hops after a site that is a nop, or after a damaged hop that
    leads elsewhere.
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
        if lines[-1] and len(plain([*lines[-1], *spans])) > _WIDTH:
            lines.append([(" ", "")])
        lines[-1] += spans
    return [line(*spans) for spans in lines]
