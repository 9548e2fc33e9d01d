"""The lines of the Call site pane: the instructions around the site, the site in all its forms.

The site's compiled, expected and current bytes are aligned below each other; if they are
equal, one line shows all. A changed byte is reversed and has a `*` after it; a byte that
ftrace does not expect has a `!`. The bytes of a module's file come first if insmod relocated
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ...core.ftrace.state import ENABLED, FAILED
from ...core.shell.text.call_site import standing
from ...core.views.call_site import CallSite, Code, SiteRow
from .line import Line, Span, Subject, about, line

_STATES = {ENABLED: ("ENABLED", "good"), FAILED: ("REFUSED", "bad")}
_SITE: Span = ("▶ ", "accent")
"""Mark of the call site's own instructions."""
_WORD = 12
"""Width of a form's name, in cells."""
_WIDTH = 75
"""Width of the pane in cells, on terminals of 80 and of 200 columns; reasons are wrapped."""
_WORD_BYTES, _LEAST_BYTES = 4, 6
"""Bytes that fit in a row: if all instructions are words, and otherwise at least."""


def site_lines(view: CallSite) -> tuple[Line, ...]:
    """Return the lines of a call site; `site_row` returns the one to keep in sight."""
    state = _STATES.get(view.state, ("nop", "strong"))
    owner = f" [{view.module}]" if view.module else ""
    users = f"{view.users} user{'' if view.users == 1 else 's'}"
    if view.ops:
        users += f": {', '.join(view.ops)}"
    place = f"{view.source[0]}:{view.source[1]}" if view.source else "source line unknown"
    symbol = view.symbol.partition(" ")[0]  # the first line names the module
    lines = [
        line((view.name, "strong"), (owner, "dim"), "   ", state, ("   " + users, "dim")),
        line(("ip ", "dim"), f"{view.ip:x}", (f"   {place}   {symbol}", "dim"), at=view.ip),
    ]
    if view.via is not None:
        name, address = view.via
        when = "" if view.state == ENABLED else "when enabled "
        lines.append(line((f"{when}through ", "dim"), (name, "link"), (f" at {address:x}", "dim")))
    else:
        lines.append(line(""))
    if not view.readable:
        lines.append(line(("! the memory of this site is not mapped", "bad")))
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
            why = "not what ftrace expects: it refuses to patch it"
            before = " " * (digits + 4)
            lines += [
                line((before + part, "bad"), at=row.address)
                for text in (why, view.reason)
                for part in wrap(text and f"! {text}", _WIDTH - len(before), subsequent_indent="  ")
            ]
    if why := standing(view):
        lines.append(line((f"  {why}", "dim")))
    if view.relocated:
        why = ", ".join(view.relocations) or "by insmod"
        lines.append(line((f"  in the file: not relocated ({why})", "dim")))
    return about(Subject(view.name, view.ip), lines)


def _shown(view: CallSite) -> list[SiteRow]:
    """Return the rows to show: if the site has four forms, only one row before it, to save room."""
    first = next((at for at, row in enumerate(view.rows) if row.is_site), 0)
    start = first - 1 if view.relocated else 0
    return [row for at, row in enumerate(view.rows) if at >= start or row.changed or row.wrong]


def site_row(lines: Sequence[Line]) -> int:
    """Return the row to keep in sight: the last one of the site's first instruction."""
    first = next((each.at for each in lines if each.mark is not None), None)
    if first is None:
        return 0
    return max(row for row, each in enumerate(lines) if each.at == first)


def _row_lines(row: SiteRow, digits: int, width: int, origin: str) -> list[Line]:
    """Return a line for each form: original, expected, now; a single line if they are equal."""
    address = f"{row.address:{digits}x}"
    compiled, expected, now = row.compiled, row.expected, row.now
    if not row.is_site and not row.changed:
        data = byte_spans(now, now, width, " ")
        label = " " * (_WORD + 2)
        return [line("  ", (address, "dim"), label, *data, (now.asm, "dim"), at=row.address)]
    lines: list[Line] = []

    def add(label: Sequence[Span], data: Sequence[Span], asm: Span) -> None:
        if lines:
            lines.append(line(" " * (digits + 2), *label, *data, asm, at=row.address))
            return
        mark, gap = (_SITE, "") if row.is_site else (None, "  ")
        lines.append(line(gap, (address, "strong"), *label, *data, asm, at=row.address, mark=mark))

    if row.in_file is not None:
        data = byte_spans(row.in_file, row.in_file, width, " ")
        add(_label("in the file"), data, (row.in_file.asm, ""))
    if not row.changed and not row.wrong:
        word = "loaded, now" if lines else "the same"
        add(_label(word), byte_spans(now, now, width, " "), (now.asm, ""))
        return lines
    add(_label(origin), byte_spans(compiled, compiled, width, " "), (compiled.asm, ""))
    if row.is_site:
        data = byte_spans(expected, compiled, width, "*")
        add(_label("expected"), data, (expected.asm, ""))
    if row.wrong:
        sign, data = ("!", "bad"), byte_spans(now, expected, width, "!")
    else:
        sign, data = ("*", "accent"), byte_spans(now, compiled, width, "*")
    add([("  now ", "strong"), sign, (" " * (_WORD - 5), "")], data, (now.asm, "strong"))
    return lines


def _label(word: str) -> list[Span]:
    """Return the name of a form, in its column."""
    return [(f"  {word:<{_WORD}}", "dim")]


def byte_spans(code: Code, other: Code, width: int, sign: str) -> list[Span]:
    """Return two digits for each byte of `code`, with `sign` after each that differs in `other`.

    Without a sign, bytes that exceed `width` cells are cut with an ellipsis.
    """
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
