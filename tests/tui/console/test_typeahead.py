"""Keys that come before the focus has moved are not lost and stay in order."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.widgets import Input

from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.pictures.picture import settle

from ..canned import NAMES, CannedDriver
from .test_main_screen import console

KEYS = {":": "colon", "/": "slash", " ": "space", ">": "greater_than_sign", "_": "underscore"}


def type_at_once(app: ConsoleApp, text: str) -> None:
    """Send all keys before the app has handled the first."""
    for letter in text:
        key = {"\n": "enter", "\x1b": "escape"}.get(letter, KEYS.get(letter, letter))
        app.post_message(events.Key(key, letter if letter.isprintable() else None))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_command_typed_at_once_is_complete(size: tuple[int, int]) -> None:
    driver = CannedDriver()
    async with console(driver, size) as (app, pilot):
        for pane in ("1", "2", "3", "4"):
            await pilot.press(pane)
            driver.executed.clear()
            type_at_once(app, ":echo sqtRc > tracing_on\n")
            await settle(pilot)
            assert driver.executed == ["echo sqtRc > tracing_on"]
            assert not app.runner.running
            assert app.main.active == int(pane)


async def test_keys_after_a_command_take_effect_after_it() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        type_at_once(app, ":echo schedule > set_ftrace_filter\nC:echo kfree > set_ftrace_filter\nR")
        await settle(pilot)
        assert driver.executed == [
            "echo schedule > set_ftrace_filter",
            "echo > trace",
            "echo kfree > set_ftrace_filter",
            "reboot",
        ]


async def test_after_escape_keys_go_to_the_list_again() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        type_at_once(app, ":echo\x1bjjj:cat\x1bj")
        await settle(pilot)
        assert driver.executed == []
        assert app.main.functions.rows.cursor == 4
        assert app.focused is app.main.functions.rows


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_filter_typed_at_once_applies_to_the_next_key(size: tuple[int, int]) -> None:
    driver = CannedDriver()
    async with console(driver, size) as (app, pilot):
        await pilot.press("1")
        type_at_once(app, "/vfs_\na")
        await settle(pilot)
        assert app.main.functions.rows.count() == 3
        assert driver.executed == ["echo '*vfs_*' > set_ftrace_filter"]
        type_at_once(app, "/sched\n")
        await settle(pilot)
        assert app.query_one("#filter", Input).value == "sched", (
            "the new filter must replace the old one"
        )
        type_at_once(app, "/\x1b/vfs_read\n/\x1bj")
        await settle(pilot)
        assert app.main.functions.rows.cursor == NAMES.index("vfs_read") + 1


async def test_a_search_typed_at_once_searches_the_trace() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        await pilot.press("4")
        type_at_once(app, "/kmalloc\n")
        await settle(pilot)
        assert app.main.trace.events.needle == "kmalloc"
        assert app.focused is app.main.trace.events


async def test_pasted_text_waits_for_enter() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        app.post_message(events.Paste(":echo kfree > set_ftrace_filter\n:reboot\n"))
        await settle(pilot)
        edit = app.query_one("#line-edit", Input)
        assert edit.value == "echo kfree > set_ftrace_filter"
        assert app.focused is edit and driver.executed == []
        type_at_once(app, "\x1b:")
        app.post_message(events.Paste("cat set_ftrace_filter\n"))
        type_at_once(app, "\n")
        await settle(pilot)
        assert driver.executed == ["cat set_ftrace_filter"]
        await pilot.press("escape")
        app.post_message(events.Paste("qqR"))
        await settle(pilot)
        assert app.is_running and driver.executed == ["cat set_ftrace_filter"]


async def test_text_typed_while_the_focus_moves_is_not_selected() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        for turns in range(12):
            app.post_message(events.Key("colon", ":"))
            for _ in range(turns):
                await asyncio.sleep(0)
            type_at_once(app, "ab")
            for _ in range(turns):
                await asyncio.sleep(0)
            type_at_once(app, "cd")
            await settle(pilot)
            assert app.query_one("#line-edit", Input).value == "abcd"
            await pilot.press("escape")
