"""A drawing of bars on a scale: the address map, CPU lanes, flame graph and histogram.

The views make drawings; the shell draws them with characters, the console in tones, and `dynftrace
draw` as SVG. Positions are fractions of the scale, so each front end chooses its own width.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from .cells import cells, cut, padded
from .toned import Span

LABEL = 22
"""Maximum cells of a row's label."""

_LEAST = 24
"""Minimum cells of the scale."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from `start` to `end`, fractions of the scale from 0 to 1."""

    start: float
    end: float
    sign: str = "#"
    """The character that fills the bar, so that bars differ by more than colour."""
    tone: str = ""
    label: str = ""
    """Text inside the bar, if there is room; such a bar begins with an edge."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a label, bars (later ones cover earlier ones), and a note after the scale."""

    label: str
    bars: tuple[Bar, ...] = ()
    note: str = ""
    tone: str = ""
    """Tone of label and note."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows on one scale."""

    title: str
    rows: tuple[Row, ...]
    left: str = ""
    right: str = ""
    """Labels of the ends of the scale."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture."""

    title: str
    sections: tuple[Section, ...]


def drawn(drawing: Drawing, width: int) -> list[list[Span]]:
    """Return the lines of a drawing in `width` cells, as texts with tones."""
    lines: list[list[Span]] = [[(drawing.title, "strong")]]
    sizes = scale_cells(drawing, width)
    for section in drawing.sections:
        lines += _section(section, *sizes)
    return lines


def plain_lines(drawing: Drawing, width: int) -> list[str]:
    """Return the lines of a drawing without tones."""
    return ["".join(text for text, _ in line).rstrip() for line in drawn(drawing, width)]


def scale_cells(drawing: Drawing, width: int) -> tuple[int, int, int]:
    """Return the cells of labels, scale and notes in a drawing of `width` cells."""
    rows = [row for section in drawing.sections for row in section.rows]
    label = min(max((cells(row.label) for row in rows), default=0), LABEL)
    note = max((cells(row.note) for row in rows), default=0)
    note = min(note, max(width - label - _LEAST - 4, 0))
    return label, max(width - label - note - 4, _LEAST), note


def _section(section: Section, label: int, scale: int, note: int) -> Iterator[list[Span]]:
    if section.title:
        yield [(section.title, "accent")]
    if section.left or section.right:
        room = scale + 2 - cells(section.left)
        close = room <= cells(section.right)
        right = f" to {section.right}" if close else section.right.rjust(room)
        yield [(" " * (label + 1), ""), (section.left + right, "dim")]
    for row in section.rows:
        name = padded(cut(row.label, label), label)
        yield [(f"{name} ", row.tone), ("│", "dim"), *_scale(row, scale), ("│", "dim")] + (
            [(f" {cut(row.note, note)}", row.tone or "dim")] if note else []
        )


def _scale(row: Row, width: int) -> list[Span]:
    """Return the bars of a row, one cell after the other, in as few spans as possible."""
    signs, tones = [" "] * width, [""] * width
    for bar in row.bars:
        if bar.end < 0 or bar.start > 1:
            continue
        first = min(int(max(bar.start, 0) * width), width - 1)
        last = min(max(ceil(min(bar.end, 1) * width), first + 1), width)
        size = last - first
        text = bar.sign * size
        if bar.label and size > 1:
            text = f"|{cut(bar.label, size - 2 if size > 4 else 0):{bar.sign}<{size - 1}}"
        for at, sign in enumerate(text[:size], first):
            signs[at], tones[at] = sign, bar.tone
    spans: list[Span] = []
    for sign, tone in zip(signs, tones, strict=True):
        if spans and spans[-1][1] == tone:
            spans[-1] = spans[-1][0] + sign, tone
        else:
            spans.append((sign, tone))
    return spans


# SVG

_COLOURS = {
    "": "#5b7fa6",
    "dim": "#9aa5b1",
    "strong": "#2f5d8a",
    "accent": "#c98a1b",
    "good": "#3f8f5f",
    "bad": "#c0453b",
    "mark": "#7a5ea8",
    "link": "#3a7ca5",
}
_WIDTH, _HEIGHT, _LEFT, _RIGHT = 1200, 20, 190, 300
"""Width of a picture, height of a row, and room for labels and for notes, in pixels."""


def svg(drawing: Drawing) -> str:
    """Return the drawing as SVG. Equal drawings give equal files."""
    scale = _WIDTH - _LEFT - _RIGHT
    out: list[str] = []
    y = 30
    for section in drawing.sections:
        y += 28
        out.append(_text(10, y, section.title, 'class="title"'))
        out.append(_text(_LEFT, y, section.left, 'class="dim"'))
        out.append(_text(_LEFT + scale, y, section.right, 'class="dim" text-anchor="end"'))
        y += 8
        for row in section.rows:
            out.append(_text(_LEFT - 6, y + 14, row.label, 'text-anchor="end"'))
            for bar in row.bars:
                start, end = max(bar.start, 0), min(bar.end, 1)
                if end < start:
                    continue
                x, width = _LEFT + start * scale, max((end - start) * scale, 1)
                colour = _COLOURS.get(bar.tone, _COLOURS[""])
                title = f"<title>{html.escape(bar.label)}</title>" if bar.label else ""
                out.append(
                    f'<rect x="{x:.2f}" y="{y + 2}" width="{width:.2f}" height="{_HEIGHT - 4}" '
                    f'fill="{colour}">{title}</rect>'
                )
                room = int(width // 7)
                if bar.label and room >= 3:
                    label = cut(bar.label, room)
                    out.append(_text(round(x + 3, 2), y + 14, label, 'fill="#fff"'))
            out.append(_text(_LEFT + scale + 8, y + 14, row.note, 'class="dim"'))
            y += _HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 16}" '
        'font-family="monospace" font-size="12"><style>.title{font-weight:bold}'
        ".dim{fill:#667}</style>"
        f'<rect width="{_WIDTH}" height="{y + 16}" fill="#fff"/>'
    )
    title = _text(10, 24, drawing.title, 'font-size="16" class="title"')
    return "\n".join((head, title, *filter(None, out), "</svg>")) + "\n"


def _text(x: float, y: float, text: str, rest: str = "") -> str:
    return f'<text x="{x}" y="{y}" {rest}>{html.escape(text)}</text>' if text else ""
