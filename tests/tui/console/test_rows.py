"""Rows wider than their list."""

from __future__ import annotations

import pytest
from rich.color import Color
from textual.app import App, ComposeResult

from dynftrace.tui.console import theme
from dynftrace.tui.console.widgets.rows import GOES_ON, Rows
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.call_path import PathText
from dynftrace.tui.present.line import Line, line, plain
from dynftrace.tui.present.view import Status, View

from ..canned import CannedDriver
from .test_main_screen import console

TEXTS = ("short", "x" * 40, "x" * 41, "blanks" + " " * 60, "a" * 39 + "漢字", "b" * 60, "")


class Shown(Rows):
    """A list of a few rows."""

    def count(self) -> int:
        return len(TEXTS)

    def line(self, row: int, width: int) -> Line:
        return ((TEXTS[row][:3], "strong"), (TEXTS[row][3:], ""))

    def row_width(self) -> int:
        return max(map(len, TEXTS))


class Small(App[None]):
    """An app with only that list."""

    def compose(self) -> ComposeResult:
        yield Shown()


def drawn(rows: Shown) -> list[str]:
    """Return the rows on the screen."""
    return [rows.render_line(y).text for y in range(len(TEXTS))]


async def test_a_row_that_continues_to_the_right_has_a_sign() -> None:
    app = Small()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = app.query_one(Shown)
        await pilot.pause()
        rows.changed()
        rows.focus()
        await pilot.pause()
        assert rows.size.width == 40
        assert drawn(rows) == [
            "short" + " " * 35,
            "x" * 40,
            "x" * 39 + GOES_ON,
            "blanks" + " " * 34,
            "a" * 39 + GOES_ON,
            "b" * 39 + GOES_ON,
            " " * 40,
        ]
        await pilot.press("l")
        await pilot.pause()
        x = rows.scroll_offset.x
        assert x == 8
        assert drawn(rows)[5] == "b" * 39 + GOES_ON
        assert GOES_ON not in "".join(drawn(rows)[:5])
        await pilot.press(*"lll")
        await pilot.pause()
        assert GOES_ON not in "".join(drawn(rows))


async def test_the_sign_is_beside_the_scrollbar() -> None:
    app = Small()
    async with app.run_test(size=(40, len(TEXTS) - 1)) as pilot:
        rows = app.query_one(Shown)
        rows.changed()
        await pilot.pause()
        assert rows.show_vertical_scrollbar
        assert drawn(rows)[:3] == ["short" + " " * 35, *["x" * 38 + GOES_ON + " "] * 2]


@pytest.mark.parametrize("width", [1, 2, 7])
async def test_the_sign_is_right_at_tiny_widths(width: int) -> None:
    app = Small()
    async with app.run_test(size=(width, 10)) as pilot:
        await pilot.pause()
        for text, shown in zip(TEXTS, drawn(app.query_one(Shown)), strict=True):
            assert (shown[-1] == GOES_ON) == (len(plain(((text, ""),)).rstrip()) > width)


def luminance(color: Color | None) -> float:
    """Return the relative luminance of a colour as defined by WCAG 2.1."""
    assert color is not None and color.triplet is not None
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (each / 255 for each in color.triplet)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", [each.name for each in theme.THEMES])
async def test_text_under_the_cursor_has_enough_contrast(name: str) -> None:
    tones = {"plain": "", "dim": "dim", "mark": "mark", "found": "found"}
    driver = CannedDriver(View(Status("x86_64", 2), path=PathText(said=(line(*tones.items()),))))
    async with console(driver) as (app, pilot):
        app.theme = name
        await pilot.press("3")
        await settle(pilot)
        seen = {segment.text: segment.style for segment in app.main.path.render_line(0)}
        for text in tones:
            style = seen[text]
            assert style is not None
            light, dark = sorted((luminance(style.color), luminance(style.bgcolor)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, text
