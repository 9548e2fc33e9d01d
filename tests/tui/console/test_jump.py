"""Jump mode: each letter goes to the place where it is shown, at every size."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.jump import LETTERS, JumpScreen
from dynftrace.tui.console.widgets.command_line import CommandLine, Edit
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.tours import course
from dynftrace.tui.tours.walk import Walk

from ..canned import CannedDriver
from .test_main_screen import console

SIZES = [(80, 24), (120, 40), (200, 50), (60, 16)]


@pytest.mark.parametrize("size", SIZES[:2])
async def test_a_letter_goes_to_its_pane(size: tuple[int, int]) -> None:
    async with console(CannedDriver(), size) as (app, pilot):
        for letter, pane in (("t", 4), ("s", 2), ("f", 1), ("p", 3)):
            await pilot.press("ctrl+o")
            assert isinstance(app.screen, JumpScreen)
            await pilot.press(letter)
            await settle(pilot)
            assert app.screen is app.main and app.main.active == pane
            assert app.focused in app.main.query(f"#pane{pane} Rows")
        await pilot.press("ctrl+o", "u", "l")
        assert isinstance(app.screen, JumpScreen), "letters without a place must be ignored"
        await pilot.press("escape")
        assert app.screen is app.main and app.main.active == 3
        await pilot.press("ctrl+o", "ctrl+o")
        assert app.screen is app.main


@pytest.mark.parametrize("size", SIZES)
async def test_each_letter_is_shown_in_its_pane(size: tuple[int, int]) -> None:
    async with console(CannedDriver(), size) as (app, pilot):
        panes = {f"pane{n}": app.main.query_one(f"#pane{n}").region for n in range(1, 5)}
        await pilot.press("ctrl+o")
        await settle(pilot)
        labels = list(app.screen.query(".jump"))
        listed = app.screen.query("#jump-box")
        assert len(labels) == (0 if size < (100, 30) else 4)
        assert len(listed) == (not labels)
        for label, (id, region) in zip(labels, panes.items(), strict=False):
            assert region.contains_region(label.region) and label.region.y == region.y
            letter, title = LETTERS[id]
            assert str(label.render()) == f" {letter}  {title} "
        for box in listed:
            assert app.screen.region.contains_region(box.region)
            text = str(box.render())
            assert all(title in text for _, title in list(LETTERS.values())[:4])


async def test_jump_mode_leaves_and_enters_the_command_line() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("colon", *"cat", "ctrl+o", "l")
        await settle(pilot)
        edit = app.query_one(Edit)
        assert app.focused is edit and edit.value == "cat"
        await pilot.press("ctrl+o", "t")
        await settle(pilot)
        assert app.main.active == 4 and not app.main.query_one(CommandLine).display


async def test_jump_mode_goes_to_the_text_of_a_tour() -> None:
    session = Session.open(arches.load("x86_64"))
    walk = Walk(course.load(course.names()[0]))
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+o", "u")
        await settle(pilot)
        assert app.focused is app.main.query_one("#tour-text")
