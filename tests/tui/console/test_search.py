"""Finding things: `/` in each pane and in boxes, where a box is, pictures of boxes, the palette."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.containers import Vertical

from dynftrace.tui.console.screens.box import Box, BoxText
from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.console.widgets.keys_bar import KeysBar
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.call_path import PathText
from dynftrace.tui.present.line import line
from dynftrace.tui.present.view import Status, View

from ..canned import CannedDriver
from .test_main_screen import console

PATH = tuple(line(text) for text in ("ftrace_caller", "call x", "push", "ret", "CALL y", "end"))


async def test_slash_searches_the_pane_that_has_the_focus() -> None:
    driver = CannedDriver(View(Status("x86_64", 2), path=PathText(said=PATH)))
    async with console(driver) as (app, pilot):
        said = app.main.query_one(EquivalentCommand)
        await pilot.press("3", "slash", *"call", "enter")
        await pilot.pause()
        seen = []
        for key in ("n", "n", "n", "N"):
            await pilot.press(key)
            seen.append((app.main.path.cursor, said.noted))
        matches = [(row, f"'call': match {n} of 3") for n, row in enumerate((0, 1, 4), 1)]
        assert seen == [matches[1], matches[2], matches[0], matches[2]]
        assert ("CALL", "found") in app.main.path.line(4, 80).spans
        await pilot.press("slash", *"nowhere", "enter")
        await pilot.pause()
        assert said.noted == "'nowhere' not found here"


async def test_a_box_is_searched_and_says_where_it_is() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        lines = [line(f"row {number} of {'odd' if number % 2 else 'even'}") for number in range(60)]
        app.open_over(Box("rows", lines))
        await pilot.pause()
        await pilot.pause()
        frame, text = app.screen.query_one("#box", Vertical), app.screen.query_one(BoxText)
        height = text.size.height
        assert frame.border_subtitle == f"{height} of 60"
        await pilot.press("slash", *"q row 5", "enter")
        assert isinstance(app.screen, Box), "letters of a search are not keys of the box"
        await pilot.press("slash", *"row 5", "enter", "n", "n")
        await pilot.pause()
        assert text.cursor == 51 and text.cursor_in_sight
        assert frame.border_subtitle == f"'row 5': match 3 of 11 │ {text.seen} of 60"
        await pilot.press("G")
        await pilot.pause()
        assert str(frame.border_subtitle).endswith("│ 60 of 60")
        assert "find" in str(app.screen.query_one(KeysBar).render())


async def test_a_search_of_the_trace_counts_its_matches() -> None:
    async with console(CannedDriver()) as (app, pilot):
        said, events = app.main.query_one(EquivalentCommand), app.main.trace.events
        expected = sum("kernel_clone" in events.text(row) for row in range(events.count()))
        await pilot.press("4", "slash", *"kernel_clone", "enter")
        await pilot.pause()
        assert said.noted == f"'kernel_clone': match {expected} of {expected}"
        await pilot.press("N")
        assert said.noted == f"'kernel_clone': match {expected - 1} of {expected}"


async def test_boxes_can_be_saved_as_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with console(CannedDriver(), (80, 24)) as (_, pilot):
        await pilot.press("question_mark", "f8")
        await pilot.pause()
        assert "Keys" in (tmp_path / "dynftrace-1.svg").read_text()


async def test_the_palette_offers_the_panes_own_actions_first() -> None:
    async with console(CannedDriver()) as (app, pilot):
        for key, first in (("4", "Hold the trace"), ("2", "Show the instruction's bit fields")):
            await pilot.press(key)
            await settle(pilot)
            offered = [each.title for each in app.get_system_commands(app.screen)]
            assert offered[0].startswith(first)
