"""A movie of a terminal: screens with the time at which each appears, and two ways to save it.

An asciinema cast (version 2) is text for a terminal. An animated SVG needs no player: each row
that a screen changes is drawn once, and CSS shows it while it is on the screen. Times are
those of a script and never measured, so equal screens give equal files.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .rows import CELL, LINE, Row

BLANK = "#14181d"
"""Background of cells that have none of their own."""

_HEX = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$", re.IGNORECASE)

_CODES = {
    "font-weight: bold": "1",
    "font-style: italic": "3",
    "text-decoration: underline": "4",
    "text-decoration: line-through": "9",
}
"""CSS of a style and its SGR code."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, and the time in ms at which it appears."""

    at: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Movie:
    """Screens of one size, in the order of their times."""

    title: str
    columns: int
    lines: int
    frames: tuple[Frame, ...]
    end: int
    """Time in ms at which the last screen disappears."""


def _colour(css: str) -> str:
    match = _HEX.match(css)
    assert match is not None, css
    return ";".join(str(int(part, 16)) for part in match.groups())


def _sgr(style: str, ground: str | None) -> str:
    """Return the escape sequence that selects a style and a background."""
    codes = ["0"]
    for each in filter(None, style.split(";")):
        if each.startswith("fill: "):
            codes.append(f"38;2;{_colour(each.removeprefix('fill: '))}")
        elif each in _CODES:
            codes.append(_CODES[each])
    if ground is not None:
        codes.append(f"48;2;{_colour(ground)}")
    return f"\x1b[{';'.join(codes)}m"


def _terminal(row: Row, columns: int) -> str:
    """Return the SVG elements that draw `row` from its first column to its last one."""
    grounds: list[str | None] = [None] * columns
    for ground in row.grounds:
        grounds[ground.left : ground.right] = [ground.fill] * (ground.right - ground.left)
    cells: list[tuple[str, str]] = [(" ", "")] * columns
    for run in row.runs:
        if len(run.text) == run.width:
            cells[run.column : run.column + run.width] = [(mark, run.style) for mark in run.text]
        else:  # wide characters: the text is in the first cell
            rest = [("", run.style)] * (run.width - 1)
            cells[run.column : run.column + run.width] = [(run.text, run.style), *rest]
    text, last = "", None
    for (mark, style), ground_of in zip(cells, grounds, strict=False):
        now = _sgr(style, ground_of)
        text += mark if now == last else now + mark
        last = now
    return text


def cast(movie: Movie) -> Iterator[str]:
    """Yield the lines of an asciinema cast, version 2."""
    header = {
        "version": 2,
        "width": movie.columns,
        "height": movie.lines,
        "duration": movie.end / 1000,
        "title": movie.title,
        "env": {"TERM": "xterm-256color"},
    }
    yield json.dumps(header) + "\n"
    shown: Sequence[Row | None] = [None] * movie.lines
    for number, frame in enumerate(movie.frames):
        text = "" if number else "\x1b[?25l\x1b[2J"
        for line, (old, row) in enumerate(zip(shown, frame.rows, strict=True), 1):
            if row != old:
                text += f"\x1b[{line};1H{_terminal(row, movie.columns)}"
        yield json.dumps([frame.at / 1000, "o", text], ensure_ascii=False) + "\n"
        shown = frame.rows
    # Without an event at its end, a player would cut the time of the last screen.
    yield json.dumps([movie.end / 1000, "o", "\x1b[0m"]) + "\n"


def _shown(movie: Movie) -> dict[tuple[int, Row], tuple[tuple[int, int], ...]]:
    """Return, for each row and its line, the start and end of the times at which it is shown."""
    spans: dict[tuple[int, Row], list[tuple[int, int]]] = {}
    ends = [*(frame.at for frame in movie.frames[1:]), movie.end]
    for frame, end in zip(movie.frames, ends, strict=True):
        for line, row in enumerate(frame.rows):
            found = spans.setdefault((line, row), [])
            begin = found.pop()[0] if found and found[-1][1] == frame.at else frame.at
            found.append((begin, end))
    return {key: tuple(found) for key, found in spans.items()}


def animated(movie: Movie) -> Iterator[str]:
    """Yield the pieces of an SVG that repeats the movie.

    Where animations are off, it shows the last screen.
    """
    groups: dict[tuple[tuple[int, int], ...], list[tuple[int, Row]]] = {}
    for key, spans in _shown(movie).items():
        groups.setdefault(spans, []).append(key)
    found = sorted({run.style for _, row in _shown(movie) for run in row.runs})
    styles = {css: f"s{number}" for number, css in enumerate(found)}
    width, height = movie.columns * CELL, movie.lines * LINE
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 18:.6g} {height + 51:.6g}">'
        "\n<style>\n"
        'text{font:20px "Fira Code",ui-monospace,Menlo,Consolas,monospace;white-space:pre;'
        "font-variant-ligatures:none}\n"
        "rect{shape-rendering:crispEdges}\n"
        ".title{font:bold 18px arial,sans-serif;fill:#c5c8c6}\n"
    )
    for css, name in styles.items():
        yield f".{name}{{{css.replace(': ', ':')}}}\n"
    always = ((0, movie.end),)
    seconds = f"{movie.end / 1000:g}s"
    names = {spans: f"k{number}" for number, spans in enumerate(groups) if spans != always}
    for spans, name in names.items():
        last = "visible" if spans[-1][1] == movie.end else "hidden"
        yield f".{name}{{visibility:{last};animation:{name} {seconds} step-end infinite}}\n"
        yield f"@keyframes {name}{{{_keyframes(spans, movie.end)}}}\n"
    yield "@media(prefers-reduced-motion:reduce){g{animation:none!important}}\n</style>\n"
    yield (
        f'<rect fill="#292929" width="{width + 18:.6g}" height="{height + 51:.6g}" rx="8"/>'
        f'<text class="title" text-anchor="middle" x="{width / 2 + 9:.6g}" y="27">'
        f"{html.escape(movie.title)}</text>"
        '<g transform="translate(26,22)"><circle r="7" fill="#ff5f57"/>'
        '<circle cx="22" r="7" fill="#febc2e"/><circle cx="44" r="7" fill="#28c840"/></g>\n'
        f'<g transform="translate(9,41)"><rect fill="{BLANK}" width="{width:.6g}" '
        f'height="{height:.6g}"/>\n'
    )
    for spans, rows in groups.items():
        yield "<g>" if spans == always else f'<g class="{names[spans]}">'
        for line, row in rows:
            yield "".join(_drawn(row, line, styles))
        yield "</g>\n"
    yield "</g></svg>\n"


def _keyframes(spans: Sequence[tuple[int, int]], end: int) -> str:
    """Return the steps of an animation that is visible during `spans`."""
    steps = {0: "hidden"}
    for begin, until in spans:
        steps[begin] = "visible"
        steps[until] = "hidden"
    steps.pop(end, None)
    return "".join(f"{at / end:.4%}{{visibility:{state}}}" for at, state in sorted(steps.items()))


def _drawn(row: Row, line: int, styles: dict[str, str]) -> Iterator[str]:
    """Yield the SVG of a row: its backgrounds, then its text."""
    top = line * LINE
    for ground in row.grounds:
        if ground.fill == BLANK:
            continue  # the screen behind it has that colour
        yield (
            f'<rect fill="{ground.fill}" x="{ground.left * CELL:.6g}" y="{top:.6g}" '
            f'width="{(ground.right - ground.left) * CELL:.6g}" height="{LINE + 0.25:g}"/>'
        )
    for run in row.runs:
        text = html.escape(run.text, quote=False).replace(" ", "\N{NO-BREAK SPACE}")
        yield (
            f'<text class="{styles[run.style]}" x="{run.column * CELL:.6g}" '
            f'y="{top + 18.5:.6g}" textLength="{run.width * CELL:.6g}">{text}</text>'
        )


def merged(title: str, size: tuple[int, int], frames: Sequence[Frame], end: int) -> Movie:
    """Return a movie of `size` (columns, lines) without screens that repeat the one before."""
    kept = [
        *frames[:1],
        *(frame for before, frame in pairwise(frames) if frame.rows != before.rows),
    ]
    return Movie(title, *size, tuple(kept), end)
