"""The rows of a screen, read from its exported SVG, so that two screens can be compared by row."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

CELL = 12.2
LINE = 24.4
"""Width of a cell and height of a row, in units of an exported picture."""

_STYLE = re.compile(r"\.(?P<name>[\w-]+-r\d+) \{ (?P<css>[^}]*?) \}")
_GROUND = re.compile(
    r'<rect fill="(?P<fill>[^"]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" '
    r'width="(?P<width>[\d.]+)" height="[\d.]+" shape-rendering="crispEdges"/>'
)
_LETTERS = re.compile(
    r'<text class="(?P<style>[^"]*)" x="(?P<x>[\d.]+)" y="[\d.]+" textLength="(?P<width>[\d.]+)" '
    r'clip-path="url\(#[\w-]+-line-(?P<row>\d+)\)">(?P<text>[^<]*)</text>'
)


class Ground(NamedTuple):
    """Cells with one background colour, from column `left` to before `right`."""

    left: int
    right: int
    fill: str


class Run(NamedTuple):
    """Text in one style, a list of CSS declarations, that begins at `column`."""

    column: int
    width: int
    """Cells; a character may take two."""
    style: str
    text: str


class Row(NamedTuple):
    """One row of a screen."""

    grounds: tuple[Ground, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def text(self) -> str:
        """The text of the row, without trailing blanks."""
        line = ""
        for run in self.runs:
            line = line.ljust(run.column) + run.text
        return line.rstrip()


def rows_of(svg: str, count: int) -> tuple[Row, ...]:
    """Return the `count` rows of a screen, from the `svg` that Textual exported."""
    styles = {match["name"]: match["css"].replace("; ", ";") for match in _STYLE.finditer(svg)}
    grounds: list[list[Ground]] = [[] for _ in range(count)]
    runs: list[list[Run]] = [[] for _ in range(count)]
    for match in _GROUND.finditer(svg):
        left = round(float(match["x"]) / CELL)
        right = left + round(float(match["width"]) / CELL)
        on = grounds[int(float(match["y"]) / LINE)]
        if on and on[-1].right == left and on[-1].fill == match["fill"]:
            left = on.pop().left
        on.append(Ground(left, right, match["fill"]))
    for match in _LETTERS.finditer(svg):
        text = html.unescape(match["text"]).replace("\N{NO-BREAK SPACE}", " ")
        run = Run(
            round(float(match["x"]) / CELL),
            round(float(match["width"]) / CELL),
            styles.get(match["style"], ""),
            text,
        )
        runs[int(match["row"])].append(run)
    return tuple(Row(tuple(g), tuple(r)) for g, r in zip(grounds, runs, strict=True))
