"""The call-site pane's text: one instruction after the other, the site's three times.

The three forms of the site stand below each other with their bytes in columns,
once where all are the same, so that a changed byte stands out where it is: it
is reversed and carries a `*`, and one that ftrace does not expect a `!`. Over
them stands what the module's file has, where insmod made something else of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ..core.views.callsite import ENABLED, FAILED, CallSite, Code, SiteRow
from .spans import Line, Span, line, plain

_STATES = {ENABLED: ("ENABLED", "good"), FAILED: ("REFUSED", "bad")}
_SITE = "▶ "
_LEAST_DIGITS = 8
_WORD = 12
_WIDTH = 75
"""Cells of the pane on 80 columns and on 200; what is refused is told on as many lines."""
_WORD_BYTES, _LEAST_BYTES = 4, 6
"""Bytes that a row has room for: where all instructions are words, and at least elsewhere."""


def site_lines(view: CallSite) -> tuple[Line, ...]:
    """The call site as lines."""
    state = _STATES.get(view.state, ("nop", "strong"))
    owner = f" [{view.module}]" if view.module else ""
    users = f"{view.users} user{'' if view.users == 1 else 's'}"
    if view.ops:
        users += f": {', '.join(view.ops)}"
    place = f"{view.source[0]}:{view.source[1]}" if view.source else "no source line known"
    symbol = view.symbol.partition(" ")[0]  # the module stands above
    lines = [
        line((view.name, "strong"), (owner, "dim"), "   ", state, ("   " + users, "dim")),
        line(("ip ", "dim"), f"{view.ip:x}", (f"   {place}   {symbol}", "dim")),
    ]
    if view.via is not None:
        name, address = view.via
        when = "" if view.state == ENABLED else "when enabled "
        lines.append(line((f"{when}through ", "dim"), (name, "link"), (f" at {address:x}", "dim")))
    else:
        lines.append(line(""))
    if not view.readable:
        lines.append(line(("! the memory of this site is not there", "bad")))
    own = [
        len(code.data)
        for row in view.rows
        if row.is_site
        for code in (row.in_file or row.now, row.compiled, row.expected, row.now)
    ]
    words = max(own, default=0) == _WORD_BYTES
    width = 3 * (_WORD_BYTES if words else max([_LEAST_BYTES, *own]))
    digits = max((len(f"{row.address:x}") for row in view.rows), default=0)
    last = max((row.address for row in view.rows if row.wrong), default=None)
    for row in _shown(view):
        lines += _row_lines(row, digits, width, "as loaded" if view.relocated else "as compiled")
        if row.address == last:
            why = "not what ftrace expects: it will not change it"
            before = " " * (digits + 4)
            lines += [
                line((before + part, "bad"))
                for text in (why, view.reason)
                for part in wrap(text and f"! {text}", _WIDTH - len(before), subsequent_indent="  ")
            ]
    if view.standing:
        lines.append(line((f"  {view.standing}", "dim")))
    if view.relocated:
        why = ", ".join(view.relocations) or "by insmod"
        lines.append(line((f"  in the file: not relocated ({why})", "dim")))
    return tuple(lines)


def _shown(view: CallSite) -> list[SiteRow]:
    """The rows; of those that stay before a site of four forms only one: a small pane has it."""
    first = next((at for at, row in enumerate(view.rows) if row.is_site), 0)
    start = first - 1 if view.relocated else 0
    return [row for at, row in enumerate(view.rows) if at >= start or row.changed or row.wrong]


def site_row(lines: Sequence[Line]) -> int:
    """The row of `site_lines` to have in sight: the last form of the site's first instruction."""
    own = next((row for row, each in enumerate(lines) if plain(each).startswith(_SITE)), 0)
    end = own + 1
    while end < len(lines) and plain(lines[end]).startswith(" " * (len(_SITE) + _LEAST_DIGITS)):
        end += 1
    return end - 1 if own else 0


def _row_lines(row: SiteRow, digits: int, width: int, origin: str) -> list[Line]:
    """The site's text as it came, as expected and as it is; one line where all are the same."""
    address = f"{row.address:{digits}x}"
    if not row.is_site and not row.changed:
        head: tuple[Span, ...] = (("  ", ""), (address, "dim"), (" " * (_WORD + 2), ""))
        return [line(*head, *byte_spans(row.now, row.now, width, " "), (row.now.asm, "dim"))]
    compiled, expected, now = row.compiled, row.expected, row.now
    place: tuple[Span, ...] = ((_SITE if row.is_site else "  ", "accent"), (address, "strong"))
    below: tuple[Span, ...] = ((" " * (digits + 2), ""),)
    lines: list[Line] = []
    if row.in_file is not None:
        label = (f"  {'in the file':<{_WORD}}", "dim")
        stored = (*byte_spans(row.in_file, row.in_file, width, " "), (row.in_file.asm, ""))
        lines.append(line(*place, label, *stored))
        place = below
    if not row.changed and not row.wrong:
        label = (f"  {'loaded, now' if lines else 'the same':<{_WORD}}", "dim")
        return [*lines, line(*place, label, *byte_spans(now, now, width, " "), (now.asm, ""))]
    sign: Span = ("!", "bad") if row.wrong else ("*", "accent") if row.changed else (" ", "")
    label = (f"  {origin:<{_WORD}}", "dim")
    as_it_came = byte_spans(compiled, compiled, width, " ")
    lines.append(line(*place, label, *as_it_came, (compiled.asm, "")))
    if row.is_site:
        label = (f"  {'expected':<{_WORD}}", "dim")
        lines.append(
            line(*below, label, *byte_spans(expected, compiled, width, "*"), (expected.asm, ""))
        )
    lines.append(
        line(
            *below,
            ("  now ", "strong"),
            sign,
            (" " * (_WORD - 5), ""),
            *byte_spans(now, expected if row.wrong else compiled, width, "!" if row.wrong else "*"),
            (now.asm, "strong"),
        )
    )
    return lines


def byte_spans(code: Code, other: Code, width: int, sign: str) -> list[Span]:
    """Two digits a byte, each followed by `sign` where it differs from `other`."""
    spans: list[Span] = []
    if 3 * len(code.data) > width and not sign.strip():
        cut = code.data[: width // 3 - 1].hex(" ") + " …"
        return [(cut.ljust(width + 1), "")]
    for at, byte in enumerate(code.data):
        if at < len(other.data) and other.data[at] == byte:
            spans.append((f"{byte:02x} ", ""))
        else:
            spans += [(f"{byte:02x}", "mark"), (sign, "bad" if sign == "!" else "accent")]
    spans.append((" " * max(width - 3 * len(code.data) + 1, 1), ""))
    return spans
