"""Makes exported screens comparable: equal screens give equal SVG."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

_UNIQUE = re.compile(r"\bterminal-\d+-")
_GROUND = re.compile(
    r'<rect fill="(?P<fill>[^"]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" '
    r'width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)" shape-rendering="crispEdges"/>'
)

_FONT = "font-variant-east-asian: full-width;"
_NO_LIGATURES = "font-variant-ligatures: none;"
"""A terminal draws `<-` as two characters; the picture's font would join them into one glyph."""

_TOUCH = 0.5
"""Largest gap between edges that count as one, in units of the picture: a cell is 12 by 24."""


class _Rect(NamedTuple):
    """A background rectangle: its edges and its colour."""

    left: float
    top: float
    right: float
    bottom: float
    fill: str


def tidy(svg: str) -> str:
    """Return the exported `svg` with fixed ids, no ligatures and fewer rectangles.

    The export gives each piece of text a background rectangle of its own, which is half of
    the file. Rectangles of one colour that touch become one.
    """
    svg = _UNIQUE.sub("terminal-", svg).replace(_FONT, f"{_FONT} {_NO_LIGATURES}")
    found = list(_GROUND.finditer(svg))
    if not found:
        return svg
    rects = [
        _Rect(x, y, x + float(match["width"]), y + float(match["height"]), match["fill"])
        for match in found
        for x, y in ((float(match["x"]), float(match["y"])),)
    ]
    return "".join(
        (svg[: found[0].start()], *map(_text, _stacked(_rows(rects))), svg[found[-1].end() :])
    )


def _rows(rects: list[_Rect]) -> list[_Rect]:
    """Join rectangles that are side by side."""
    joined: list[_Rect] = []
    for rect in rects:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.top, last.fill) == (rect.top, rect.fill)
            and abs(last.right - rect.left) < _TOUCH
        ):
            joined[-1] = last._replace(right=rect.right)
        else:
            joined.append(rect)
    return joined


def _stacked(rects: list[_Rect]) -> list[_Rect]:
    """Join rectangles that are one below the other."""
    joined: list[_Rect] = []
    above: dict[tuple[float, float, str], int] = {}
    for _, row in groupby(rects, key=lambda rect: rect.top):
        below: dict[tuple[float, float, str], int] = {}
        for rect in row:
            column = round(rect.left, 1), round(rect.right, 1), rect.fill
            at = above.get(column)
            if at is not None and abs(joined[at].bottom - rect.top) < _TOUCH:
                joined[at] = joined[at]._replace(bottom=rect.bottom)
            else:
                at = len(joined)
                joined.append(rect)
            below[column] = at
        above = below
    return joined


def _text(rect: _Rect) -> str:
    return (
        f'<rect fill="{rect.fill}" x="{rect.left:.6g}" y="{rect.top:.6g}" '
        f'width="{rect.right - rect.left:.6g}" height="{rect.bottom - rect.top:.6g}" '
        'shape-rendering="crispEdges"/>'
    )
