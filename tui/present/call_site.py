"""The lines of the Call site pane: the instructions around the site, the site in all its forms.

The site's compiled, expected and current bytes are aligned below each other. What `t` changes
always has a line for each form, so nothing moves when it does; of other instructions, equal
forms share a line. A changed byte is reversed and has a `*` after it; a byte that ftrace does
not expect has a `!`. The bytes of a module's file come first if insmod relocated them.

The instruction that changes is shown whole in every pane: a narrow pane shortens addresses, a
low one leaves out the text around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from ...core.ftrace.state import ENABLED, FAILED, NOP
from ...core.shell.text.call_site import standing
from ...core.views.call_site import CallSite, Code, SiteRow
from .line import Line, Span, Subject, about, line, plain

_STATES = {ENABLED: ("ENABLED", "good"), FAILED: ("REFUSED", "bad"), NOP: ("DISABLED", "strong")}
_MEANING = {
    ENABLED: "traced: it runs ftrace_caller first, which calls the tracer",
    NOP: "not traced: execution passes here without a call",
}
_SITE: Span = ("▶ ", "accent")
"""Mark of the call site's own instructions."""
LEAST_AFTER, MOST_AFTER = 3, 14
"""Instructions after the site: the minimum, and the number to read for a high pane."""
_WORD = 12
"""Width of a form's name, in cells."""
_WORD_BYTES, _LEAST_BYTES = 4, 6
"""Bytes that fit in a row if all instructions are words, and the minimum otherwise."""
_LEAST_ASM = 25
"""Minimum cells of an instruction's text, so that a pane does not jump with its state."""
_LAST_DIGITS = 4
"""Digits of an address in a narrow pane; the head has all of them."""


@dataclass(frozen=True, slots=True)
class SiteText:
    """A call site, to be drawn for a pane of any size."""

    site: CallSite

    def fitted(self, width: int, height: int) -> tuple[tuple[Line, ...], int, int]:
        """Return the lines for a pane of this size, and `rows_in_sight`."""
        lines = site_lines(self.site, width, height)
        return lines, *rows_in_sight(self.site, lines)


@dataclass(frozen=True, slots=True)
class Shape:
    """How to draw a call site in a pane: its columns, and the parts left out."""

    digits: int
    """Cells of an address; fewer than it has show only its last digits."""
    bytes: int
    """Cells of the bytes of an instruction."""
    around: bool = True
    """Whether the instructions before the site and a blank row are shown."""
    after: int = LEAST_AFTER
    """Instructions shown after the site."""
    whole: bool = True
    """Whether all forms of words that do not change with the tracer are shown."""
    forms: bool = True
    """Whether the words that change have a line for each form, even if it equals another."""
    place: bool = True
    """Whether `ip` and its source line are shown."""

    def address(self, address: int) -> str:
        """Return `address` in its column."""
        text = f"{address:x}"
        if len(text) <= self.digits:
            return text.rjust(self.digits)
        return f"…{text[1 - self.digits :]}"


def site_lines(view: CallSite, width: int = 76, height: int | None = None) -> tuple[Line, ...]:
    """Return the lines of a call site for a pane of this size.

    `rows_in_sight` returns the lines to keep in sight. Without `height`, nothing is left out.
    """
    lines: tuple[Line, ...] = ()
    for shape in _shapes(view, width):
        lines = _lines(view, shape, width)
        if height is None or rows_in_sight(view, lines)[1] < height:
            if height is not None and len(lines) < height:
                shape = replace(shape, after=shape.after + height - len(lines))
                lines = _lines(view, shape, width)
            break
    return lines


def rows_in_sight(view: CallSite, lines: Sequence[Line]) -> tuple[int, int]:
    """Return the last lines of the first and of the last word that `t` changes."""
    words = [row.address for row in view.rows if row.switches]
    words = words or [row.address for row in view.rows if row.is_site][:1]
    rows = [
        max((row for row, each in enumerate(lines) if each.at == at), default=0) for at in words
    ]
    return (rows[0], rows[-1]) if rows else (0, 0)


def _shapes(view: CallSite, width: int) -> Iterator[Shape]:
    """Yield the shapes for a pane `width` wide: each leaves out more rows than the last."""
    own = [code for row in view.rows if row.is_site for code in _codes(row)]
    longest = max((len(code.data) for code in own), default=0)
    asm = max((_LEAST_ASM, *(len(code.asm) for code in own)))
    digits = max((len(f"{row.address:x}") for row in view.rows), default=0)
    bytes_ = _WORD_BYTES if longest == _WORD_BYTES else max(_LEAST_BYTES, longest)
    shape = Shape(digits, 3 * bytes_)
    if 2 + digits + _WORD + 2 + 3 * bytes_ + 1 + asm > width:
        shape = Shape(min(digits, 1 + _LAST_DIGITS), 3 * longest)
    yield shape
    yield replace(shape, around=False)
    yield replace(shape, around=False, whole=False)
    yield replace(shape, around=False, whole=False, place=False)
    yield replace(shape, around=False, whole=False, place=False, forms=False)


def _codes(row: SiteRow) -> tuple[Code, ...]:
    """Return the forms of a row of the site, in the order they are shown."""
    return (row.in_file or row.now, row.compiled, row.expected, row.now)


def _lines(view: CallSite, shape: Shape, width: int) -> tuple[Line, ...]:
    """Return the lines of a call site in `shape`, with sentences wrapped to `width`."""
    state = _STATES.get(view.state, (view.state, "strong"))
    owner = f" [{view.module}]" if view.module else ""
    users = f"{view.users} user{'' if view.users == 1 else 's'}"
    if view.ops:
        users += f": {', '.join(view.ops)}"
    place = f"{view.source[0]}:{view.source[1]}" if view.source else "source line unknown"
    symbol = view.symbol.partition(" ")[0]  # the first line names the module
    lines = [
        line((view.name, "strong"), (owner, "dim"), "   ", state, ("   " + users, "dim")),
    ]
    if shape.place:
        here = (f"   {place}   {symbol}", "dim")
        if len(f"ip {view.ip:x}{here[0]}") > width:
            here = (f"   {place}", "dim")
        lines.append(line(("ip ", "dim"), f"{view.ip:x}", here, at=view.ip))
    if view.via is not None:
        name, address = view.via
        when = "" if view.state == ENABLED else "when enabled "
        lines.append(line((f"{when}through ", "dim"), (name, "link"), (f" at {address:x}", "dim")))
    elif shape.around:
        lines.append(line((_MEANING.get(view.state, ""), "dim")))
    if not view.readable:
        lines.append(line(("! the memory of this site is not mapped", "bad")))
    last = max((row.address for row in view.rows if row.wrong), default=None)
    for row in _shown(view, shape):
        for each in _row_lines(row, shape, "as loaded" if view.relocated else "as compiled"):
            lines += _broken(each, width) if row.is_site else [each]
        if row.address == last:
            why = "not what ftrace expects: it refuses to patch it"
            if view.under_way:
                why = "not yet what ftrace expects: a patch is under way (p shows it)"
            before = " " * (shape.digits + 4)
            lines += [
                line((before + part, "bad"), at=row.address)
                for text in (why, view.reason)
                for part in wrap(text and f"! {text}", width - len(before), subsequent_indent="  ")
            ]
    if why := standing(view):
        lines += [line((f"  {part}", "dim")) for part in wrap(why, width - 2)]
    if view.relocated:
        why = f"in the file: not relocated ({', '.join(view.relocations) or 'by insmod'})"
        lines += [line((f"  {part}", "dim")) for part in wrap(why, width - 2)]
    return about(Subject(view.name, view.ip), lines)


def _shown(view: CallSite, shape: Shape) -> list[SiteRow]:
    """Return the rows to show: if the site has four forms, only one row before it, to save room."""
    first = next((at for at, row in enumerate(view.rows) if row.is_site), 0)
    start = first if not shape.around else first - 1 if view.relocated else 0
    last = max((at for at, row in enumerate(view.rows) if row.is_site), default=0) + shape.after
    return [
        row for at, row in enumerate(view.rows) if start <= at <= last or row.changed or row.wrong
    ]


def _row_lines(row: SiteRow, shape: Shape, origin: str) -> list[Line]:
    """Return a line for each form: original, expected, now; a single line if they are equal."""
    address, width = shape.address(row.address), shape.bytes
    compiled, expected, now = row.compiled, row.expected, row.now
    if not row.is_site and not row.changed:
        data = byte_spans(now, now, width, " ")
        label = " " * (_WORD + 2)
        return [line("  ", (address, "dim"), label, *data, (now.asm, "dim"), at=row.address)]
    lines: list[Line] = []

    def add(label: Sequence[Span], data: Sequence[Span], code: Code, tone: str = "") -> None:
        mark: Span | None = None
        if lines:
            head: list[Span | str] = [" " * (shape.digits + 2)]
        elif row.is_site:
            mark, head = _SITE, [(address, "strong")]
        else:
            head = ["  ", (address, "strong")]
        other = None if code is now else code.data
        spans = (*head, *label, *data, (code.asm, tone))
        lines.append(line(*spans, at=row.address, mark=mark, data=other))

    every = row.switches or row.wrong or (row.changed and shape.whole)
    if row.in_file is not None and (shape.whole or (every and shape.forms)):
        data = byte_spans(row.in_file, row.in_file, width, " ")
        add(_label("in the file"), data, row.in_file)
    if not every and not row.changed:
        word = "loaded, now" if row.in_file is not None else "the same"
        add(_label(word), byte_spans(now, now, width, " "), now)
        return lines
    if every:
        add(_label(origin), byte_spans(compiled, compiled, width, " "), compiled)
    if every and row.is_site and (shape.forms or row.wrong):
        data = byte_spans(expected, compiled, width, "*")
        add(_label("expected"), data, expected)
    if row.wrong:
        sign, data = ("!", "bad"), byte_spans(now, expected, width, "!")
    else:
        sign = ("*" if row.changed else " ", "accent")
        data = byte_spans(now, compiled, width, "*")
    add([("  now ", "strong"), sign, (" " * (_WORD - 5), "")], data, now, "strong")
    return lines


def _broken(row: Line, width: int) -> list[Line]:
    """Return `row` in two lines if it is too wide: the text of the instruction below its bytes."""
    if len(plain(row)) <= width:
        return [row]
    *before, (asm, tone) = row.spans
    below = line(" " * max(width - len(asm), 0), (asm, tone), at=row.at, data=row.data)
    return [replace(row, spans=tuple(before)), below]


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
