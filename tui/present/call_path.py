"""The lines of the Trampoline pane: the path of a call, and why and how stubs are part of it.

First the whole path on a line or two, then a line for each hop with the result of its check, then
the code of each hop. For a module's call they also say why it cannot reach ftrace_caller itself,
and list the module's stubs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from ...core.views.disasm import Insn
from ...core.views.path import SITE, Hop
from ...core.views.stubs import StubView
from .line import Line, Span, fit, line, plain

_NAME = 32
"""Maximum width of a hop's name, in cells."""

_MOST_BYTES = 8
"""Bytes of an instruction that fit before its text."""

_WIDTH = 75
"""Width of the pane in cells, on terminals of 80 and of 200 columns, without the scrollbar."""

_LAST_DIGITS = 4
"""Digits of an address in a pane too narrow for all of them."""

_LEAST_NOTE = 20
"""Cells below which the rest of a note starts at the left instead of below its beginning."""


@dataclass(frozen=True, slots=True)
class PathText:
    """The path of a call, to be drawn for a pane of any width."""

    hops: tuple[Hop, ...] = ()
    reason: tuple[str, ...] = ()
    """Why the call cannot reach ftrace_caller itself."""
    module: str = ""
    stubs: tuple[StubView, ...] = ()
    """The stubs of `module`."""
    said: tuple[Line, ...] = ()
    """Text shown without a path."""

    def fitted(self, width: int, height: int) -> tuple[Line, ...]:
        """Return the lines for a pane of this size: a low one has no blank row after the path."""
        if not self.hops:
            return self.said
        lines = list(path_lines(self.hops, reason_lines(self.reason, width), width))
        blank = lines.index(line(""))
        if lines.index(line(""), blank + 1) > height:
            del lines[blank]
        return (*lines, *stub_lines(self.module, self.stubs, width))


def path_lines(
    hops: Sequence[Hop], note: Sequence[Line] = (), width: int = _WIDTH
) -> tuple[Line, ...]:
    """Return the path, a line for each hop with the result of its check, `note`, and the code."""
    names = [f"{hop.label} {hop.name}" if hop.label == SITE else hop.name for hop in hops]
    room = min(max((len(name) for name in names), default=0), _NAME)
    digits = max((len(f"{hop.address:x}") for hop in hops), default=0)
    longest = max((len(hop.note) for hop in hops), default=0)
    gap = 2
    if 2 + room + gap + digits + gap + longest > width:
        gap, digits = 1, min(digits, 1 + _LAST_DIGITS)
    lines = [*_chain(hops, width), line("")]
    for hop, name in zip(hops, names, strict=True):
        tone = "dim" if hop.verified else "bad"
        lines += _hop_lines(hop, fit(name, room), (digits, gap), (hop.note, tone), width)
    lines += note
    insns = [insn for hop in hops for insn, _ in hop.insns]
    room = 3 * min(max((len(insn.data) for insn in insns), default=0), _MOST_BYTES)
    for hop in hops:
        lines += [line(""), line((hop.name, "link"), at=_address(hop))]
        lines += [_code_line(hop, insn, text, digits, room) for insn, text in hop.insns]
    return tuple(lines)


def reason_lines(reason: Sequence[str], width: int = _WIDTH) -> tuple[Line, ...]:
    """Return why the call cannot reach ftrace_caller itself; no lines if it can."""
    wrapped = [part for each in reason for part in _wrapped(each, width - 2)]
    return tuple(line((f"  {part}", "accent")) for part in wrapped)


def stub_lines(module: str, stubs: Sequence[StubView], width: int = _WIDTH) -> tuple[Line, ...]:
    """Return a line for each stub of `module`: its target, and the number of sites that need it."""
    if not stubs:
        return ()
    room = min(max(len(stub.hop.name) for stub in stubs), _NAME)
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
        lines += _hop_lines(hop, fit(hop.name, room), (0, 2), (said, tone), width)
    return tuple(lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of `width`; those after the first keep its indentation."""
    indent = " " * (len(text) - len(text.lstrip()))
    return wrap(text, width, subsequent_indent=indent, drop_whitespace=True) or [""]


def _hop_lines(hop: Hop, name: str, columns: tuple[int, int], said: Span, width: int) -> list[Line]:
    """Return a hop's name, address and note, with a sign that shows whether it was verified.

    `columns` has the cells of the address (0 shows all of it) and those between columns. A
    note that is too long for its line continues below.
    """
    digits, gap = columns
    sign: Span = ("✓ ", "good") if hop.verified else ("! ", "bad")
    address = (_short(hop.address, digits) if digits else f"{hop.address:x}") + " " * gap
    before = 2 + len(name) + gap + len(address)
    text, tone = said
    room = width - before
    if room >= _LEAST_NOTE or len(text) <= room:
        first, *rest = wrap(text, max(room, 1)) or [""]
    else:
        before, first, rest = 4, "", wrap(text, max(width - 4, 1))
    at = _address(hop)
    lines = [line(sign, (name + " " * gap, "link"), (address, "dim"), (first, tone), at=at)]
    return lines + [line((" " * before + part, tone), at=at) for part in rest]


def _short(address: int, digits: int) -> str:
    """Return `address` in `digits` cells: all of it, or an ellipsis and its last digits."""
    text = f"{address:x}"
    return text.rjust(digits) if len(text) <= digits else f"…{text[1 - digits :]}"


def _code_line(hop: Hop, insn: Insn, text: str, digits: int, width: int) -> Line:
    """Return an instruction or a word of data, with `!` if ftrace left something else there."""
    address = f"{_short(insn.address, digits)}  "
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


def _chain(hops: Sequence[Hop], width: int) -> list[Line]:
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
        if lines[-1] and len(plain([*lines[-1], *spans])) > width:
            lines.append([(" ", "")])
        lines[-1] += spans
    return [line(*spans) for spans in lines]
