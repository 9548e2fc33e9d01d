"""A drawn row as data: its text in spans, and its subject.

A `Line` is a row of spans, each a text and the name of a tone. Widgets map a tone to a style
of the theme (`rows--TONE` in console.tcss). A line also holds the address of the instruction
it shows, its subject, and the text to copy, so that no code has to parse its text. Tones:
`""` ordinary text, `dim`, `strong`, `accent`, `good`, `bad`, `mark` (changed bytes: reversed),
`link` (the name of another place), `found` (matches of a search).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...core.views.cells import cells, cut, padded
from ...core.views.toned import Span as Span  # the spans of the commands' output

TONES = ("dim", "strong", "accent", "good", "bad", "mark", "link", "found")

_HANGING = 4
"""Cells by which the rest of a folded row is indented."""

_DRAWING = "│├┣▲"
"""Signs of rows that are drawn to scale, which folding would destroy."""

_SHORT = 60
"""Cells of a text that a message quotes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The function or place that a line is about; equal subjects are the same thing."""

    name: str
    ip: int | None = None
    """Address of the call site, if the subject is one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of text, and its subject. Iterating it yields all spans, the mark first."""

    spans: tuple[Span, ...] = ()
    at: int | None = None
    """Address of the instruction or hop the row shows."""
    subject: Subject | None = None
    copy: str | None = None
    """Text to copy for the row; None means `text`."""
    mark: Span | None = None
    """A sign drawn before the spans, such as the `▶` of the current row; never copied."""
    data: bytes | None = None
    """The bytes that the row shows at `at`, if they are not read from memory now."""

    def __iter__(self) -> Iterator[Span]:
        if self.mark is not None:
            yield self.mark
        yield from self.spans

    @property
    def text(self) -> str:
        """The text without its mark, stripped of blanks."""
        return plain(self.spans).strip()

    @property
    def copied(self) -> str:
        """The text to copy for the row."""
        return self.text if self.copy is None else self.copy


def line(
    *spans: Span | str,
    at: int | None = None,
    subject: Subject | None = None,
    copy: str | None = None,
    mark: Span | None = None,
    data: bytes | None = None,
) -> Line:
    """Return a line of `spans`; a bare string is a span in the ordinary tone."""
    toned = tuple((span, "") if isinstance(span, str) else span for span in spans)
    return Line(toned, at, subject, copy, mark, data)


def plain(spans: Iterable[Span]) -> str:
    """Return the text of a line as it is drawn, without tones."""
    return "".join(text for text, _ in spans)


def about(subject: Subject, lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return `lines` with `subject` as the subject of each."""
    return tuple(replace(each, subject=subject) for each in lines)


def fit(text: str, width: int) -> str:
    """Return `text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if cells(text) > width:
        return padded(cut(text, width - 1) + "…", width) if width > 0 else ""
    return padded(text, width)


def short(text: str) -> str:
    """Return `text`, or its start and an ellipsis if a message of 80 cells has no room for it."""
    return text if len(text) <= _SHORT else fit(text, _SHORT)


def folded(shown: Line, width: int) -> list[Line]:
    """Return `shown` in rows of at most `width` cells: the rest is indented below the start.

    A row ends before a column (after two blanks) if that leaves it at least half full, else at a
    blank, else within a word. Rows of a drawing stay whole.
    """
    text = plain(shown).rstrip()
    if any(sign in text for sign in _DRAWING):
        return [shown]
    indent = len(text) - len(text.lstrip()) + _HANGING
    rows: list[Line] = []
    start, room = 0, width
    while cells(text[start:]) > room > _HANGING:
        part = cut(text[start:], room + 1)
        least = len(part) // 2
        at = part.rfind("  ", least)
        end = at if at >= 0 else part.rfind(" ", 1)
        if end < 0 or not part[:end].strip():
            end = len(cut(text[start:], room))
        rows.append(_piece(shown, start, start + end, indent if rows else 0))
        start += end
        start += len(text[start:]) - len(text[start:].lstrip())
        room = width - indent
    if not rows:
        return [shown]
    return [*rows, _piece(shown, start, len(text), indent)]


def _piece(shown: Line, start: int, end: int, indent: int) -> Line:
    """Return the characters `start` to `end` of `shown`, after `indent` blanks."""
    spans: list[Span] = [(" " * indent, "")] if indent else []
    at = 0
    for text, tone in shown:
        if part := text[max(start - at, 0) : max(end - at, 0)]:
            spans.append((part, tone))
        at += len(text)
    return replace(shown, spans=tuple(spans), mark=None)


def found_text(needle: str, place: int, matches: int) -> str:
    """Return which match of a search this is."""
    return f"{needle!r}: match {place:,} of {matches:,}"


def highlight(line: Line, needle: str, tone: str = "found") -> Line:
    """Return `line` with each occurrence of `needle` (ignoring case) in `tone`."""
    if not needle:
        return line
    out: list[Span] = []
    wanted = needle.casefold()
    for text, kept in line.spans:
        folded = text.casefold()
        start = 0
        while (at := folded.find(wanted, start)) >= 0:
            if at > start:
                out.append((text[start:at], kept))
            out.append((text[at : at + len(needle)], tone))
            start = at + len(needle)
        if start < len(text):
            out.append((text[start:], kept))
    return replace(line, spans=tuple(out))
