"""The main screen with a driver without a machine: keys, panes, commands, boxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widgets import Input, Static

from dynftrace.core.errors import ImageError
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.console.screens.main import layout_for
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.console.widgets.candidates import Candidates
from dynftrace.tui.console.widgets.command_line import CommandLine
from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.console.widgets.function_list import FunctionList
from dynftrace.tui.console.widgets.keys_bar import KeysBar
from dynftrace.tui.console.widgets.pane import Pane
from dynftrace.tui.explore.function_table import FunctionTable
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import line
from dynftrace.tui.present.view import Report, View

from ..canned import NAMES, CannedDriver

IP = 0xFFFF_FFFF_8100_0000


@asynccontextmanager
async def console(
    driver: CannedDriver, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    """Run the app on `driver`, booted; functions are sorted by address, as `NAMES` is."""
    app = ConsoleApp(lambda: driver)
    with patch.object(FunctionList.order, "_default", "address"):
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            yield app, pilot


def equivalent(app: ConsoleApp) -> str:
    """Return the text of the line."""
    return str(app.main.query_one(EquivalentCommand).render()).strip()


def shown(app: ConsoleApp) -> list[int]:
    """Return the numbers of the panes on the screen."""
    return [pane.number for pane in app.main.query(Pane) if pane.region.area and pane.display]


def test_the_layout_follows_the_size() -> None:
    assert layout_for(Size(59, 40), False) == "-small"
    assert layout_for(Size(120, 15), False) == "-small"
    assert layout_for(Size(80, 24), False) == "-single"
    assert layout_for(Size(120, 24), False) == "-single"
    assert layout_for(Size(120, 40), False) == "-four"
    assert layout_for(Size(120, 40), True) == "-single"
    assert layout_for(Size(200, 50), False) == "-wide"


async def test_space_toggles_and_shows_the_command() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("j", "space")
        await settle(pilot)
        assert driver.executed == ["echo schedule >> set_ftrace_filter"]
        assert equivalent(app) == "same as: echo schedule >> set_ftrace_filter"
        assert app.main.functions.rows.functions is not None
        assert app.main.functions.rows.functions.row(1).state.name == "CHOSEN"
        await pilot.press("t")
        await settle(pilot)
        assert app.main.functions.rows.functions.row(1).state.name == "TRACED"
        await pilot.press("t", "space")
        await settle(pilot)
        assert driver.executed[1:] == [
            "echo function > current_tracer",
            "echo nop > current_tracer",
            "echo '!schedule' >> set_ftrace_filter",
        ]


async def test_the_cursor_selects_the_site_to_show() -> None:
    driver = CannedDriver()
    async with console(driver) as (_, pilot):
        assert driver.ip == IP
        await pilot.press("j", "j", "j")
        await settle(pilot)
        assert driver.ip == IP + 3 * 64


async def test_the_list_is_filtered_while_typing() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("slash", *"vfs_")
        assert app.main.functions.rows.count() == 3
        assert "3 of 37" in str(app.main.functions.border_subtitle)
        await pilot.press("enter", "j")
        assert app.main.functions.rows.cursor == 1
        await pilot.press("slash", "escape")
        assert app.main.functions.rows.count() == 37
        assert app.main.functions.rows.cursor == NAMES.index("vfs_write")


async def test_letters_in_the_filter_are_not_commands() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("slash", *"qtRcs1:")
        await settle(pilot)
        assert driver.executed == []
        assert app.query_one("#filter", Input).value == "qtRcs1:"
        assert not app.runner.running


async def test_panes_are_reached_by_number_and_tab() -> None:
    async with console(CannedDriver()) as (app, pilot):
        for key, active in (("2", 2), ("tab", 3), ("tab", 4), ("tab", 1), ("shift+tab", 4)):
            await pilot.press(key)
            assert app.main.active == active
            assert shown(app) == [1, 2, 3, 4]


async def test_on_80_columns_one_pane_is_shown() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        assert shown(app) == [1]
        for key in ("2", "3", "4", "1"):
            await pilot.press(key)
            await pilot.pause()
            assert shown(app) == [int(key)]
            title = str(app.main.query_one(f"#pane{key}", Pane).border_title)
            for word in ("Functions", "Call site", "Trampoline", "Trace"):
                assert word in title
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert shown(app) == [1, 2, 3, 4]
        await pilot.press("z")
        await pilot.pause()
        assert shown(app) == [1]


async def test_a_terminal_that_is_too_small_is_reported_and_may_grow() -> None:
    async with console(CannedDriver(), (50, 12)) as (app, pilot):
        text = app.main.query_one("#too-small", Static)
        assert text.display
        assert "60x16" in str(text.render()) and "50x12" in str(text.render())
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not text.display
        assert shown(app) == [1]


async def test_the_command_line_runs_completes_and_remembers() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("colon", *"cat av")
        await settle(pilot)
        assert app.main.query_one(Candidates).display
        await pilot.press("tab")
        edit = app.query_one("#line-edit", Input)
        assert edit.value == "cat available_"
        await settle(pilot)
        await pilot.press("tab")
        assert edit.value == "cat available_filter_functions"
        await pilot.press("tab")
        assert edit.value == "cat available_tracers"
        await pilot.press("enter")
        await settle(pilot)
        assert driver.executed == ["cat available_tracers"]
        assert not app.main.query_one(CommandLine).display
        await pilot.press("colon", "up")
        assert edit.value == "cat available_tracers"
        await pilot.press("escape")
        assert not app.main.query_one(CommandLine).display
        assert app.focused is app.main.functions.rows


async def test_ctrl_r_searches_older_commands() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        for command in ("site schedule", "cat trace", "site vfs_read"):
            await pilot.press("colon", *command, "enter")
            await settle(pilot)
        edit = app.query_one("#line-edit", Input)
        await pilot.press("colon", *"site", "ctrl+r")
        assert edit.value == "site vfs_read"
        await pilot.press("ctrl+r")
        assert edit.value == "site schedule"
        await pilot.press("ctrl+r")
        assert edit.value == "site schedule"
        await pilot.press("enter")
        await settle(pilot)
        assert driver.executed[-1] == "site schedule"
        await pilot.press("colon", *"read", "ctrl+r")
        assert edit.value == "site vfs_read"


async def test_a_single_candidate_is_inserted_with_a_space() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("colon", *"cat available_t")
        await settle(pilot)
        await pilot.press("tab")
        edit = app.query_one("#line-edit", Input)
        assert edit.value == "cat available_tracers "
        await pilot.press("x", "enter")
        await settle(pilot)
        assert driver.executed == ["cat available_tracers x"]


async def test_errors_have_the_kernels_text() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        app.command("echo nothing > set_ftrace_filter")
        await settle(pilot)
        error = "! write error: Invalid argument: no such function; the filter is now empty"
        assert equivalent(app) == f"same as: echo nothing > set_ftrace_filter   {error}"
        app.command("echo " + "nothing" * 40 + " > set_ftrace_filter")
        await settle(pilot)
        assert equivalent(app).endswith(error)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert equivalent(app) == error


async def test_long_output_opens_a_box() -> None:
    driver = CannedDriver()
    driver.filtered = ["schedule", "kfree"]
    async with console(driver) as (app, pilot):
        app.command("cat set_ftrace_filter")
        await settle(pilot)
        assert isinstance(app.screen, Box)
        await pilot.press("q")
        assert app.screen is app.main


async def test_keys_run_pause_and_interrupt() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("c")
        assert app.runner.running
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert not app.runner.running
        assert app.is_running


async def test_the_picker_runs_a_workload() -> None:
    driver = CannedDriver()
    async with console(driver) as (_, pilot):
        await pilot.press("w")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert driver.executed == ["run syscalls"]


async def test_a_report_is_shown_once_and_goes_to_its_site() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        report = Report("ftrace failed", (line("expected 90"),), "text", IP + 5 * 64)
        driver.base = replace(driver.base, reports=(report,))
        app.command("echo schedule > set_ftrace_filter")
        await settle(pilot)
        assert isinstance(app.screen, ReportBox)
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen is app.main
        assert driver.ip == IP + 5 * 64
        assert app.main.active == 2
        app.command("echo kfree > set_ftrace_filter")
        await settle(pilot)
        assert app.screen is app.main


async def test_a_report_goes_only_to_an_existing_site() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        report = Report("CPU 0 oopsed", (line("BUG"),), "text", 0xDEAD0000)
        driver.base = replace(driver.base, reports=(report,))
        app.command("echo schedule > set_ftrace_filter")
        await settle(pilot)
        keys = str(app.screen.query_one(KeysBar).render())
        assert "reboot" in keys and "site" not in keys
        await pilot.press("enter")
        assert isinstance(app.screen, ReportBox)


async def test_candidates_use_the_width_of_the_panes() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("colon", *"echo ")
        await settle(pilot)
        region = app.main.query_one(Candidates).region
        assert (region.x, region.right) == (1, 119)
        assert region.bottom == app.main.query_one(CommandLine).region.y - 1


async def test_help_lists_the_panes_keys_first() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("4", "question_mark")
        assert isinstance(app.screen, Box)
        from dynftrace.tui.console.screens.help import help_lines
        from dynftrace.tui.present.line import plain

        assert plain(help_lines(4)[0]) == "Trace"
        await pilot.press("escape", "f1")
        assert isinstance(app.screen, Box)


async def test_q_closes_boxes_and_then_quits() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("question_mark", "q")
        assert app.screen is app.main
        await pilot.press("q")
        assert app._exit


async def test_enter_on_an_event_goes_to_its_function() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pilot.press("4", "enter")
        await settle(pilot)
        event = 1203 % 33
        assert driver.ip == IP + event * 64
        assert app.main.functions.rows.cursor == event


async def test_a_session_that_fails_to_open_exits_with_its_error() -> None:
    def start() -> CannedDriver:
        raise ImageError("vmlinux", "not an ELF file")

    app = ConsoleApp(start)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(500):
            await pilot.pause(0.005)
            if app._exit:
                break
    assert app.return_code == 1


@pytest.mark.parametrize("theme", ["dynftrace", "dynftrace-light", "textual-light", "ansi-dark"])
async def test_themes_can_be_changed(theme: str) -> None:
    async with console(CannedDriver()) as (app, pilot):
        if theme not in app.available_themes:
            theme = next(name for name in app.available_themes if "ansi" in name)
        app.theme = theme
        await settle(pilot)
        assert "schedule" in app.export_screenshot()


async def test_enter_in_the_list_goes_to_the_call_site() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        await pilot.press("slash", *"schedule", "enter", "enter")
        await settle(pilot)
        assert app.main.active == 2
        assert shown(app) == [2]


async def test_the_command_line_previews_its_effect() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        candidates = app.main.query_one(Candidates)
        await pilot.press("colon", *"cat ava")
        await settle(pilot)
        assert str(candidates.render()).splitlines()[0] == "7 characters"
        await pilot.press(*"xyz")
        await settle(pilot)
        assert str(candidates.render()).splitlines() == ["10 characters"]
        await pilot.press("escape")
        assert not candidates.display


async def test_the_equivalent_command_is_copied() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("Y")
        assert app.clipboard == ""
        await pilot.press("t")
        await settle(pilot)
        await pilot.press("Y")
        assert app.clipboard == "echo function > current_tracer"


@pytest.mark.parametrize(
    ("size", "pattern"), [((80, 24), ""), ((120, 40), "vfs"), ((200, 50), "vfs")]
)
async def test_hits_are_shown_under_their_title(size: tuple[int, int], pattern: str) -> None:
    class Hit(CannedDriver):
        def view(self, *, old_s: float = 0.0) -> View:
            view = super().view()
            assert isinstance(view.functions, FunctionTable)
            hits = np.full(len(view.functions), 98765)
            return replace(view, functions=replace(view.functions, hits=hits))

    async with console(Hit(), size) as (app, pilot):
        await pilot.press("slash", *pattern, "enter")
        await settle(pilot)
        rows = app.main.functions.rows
        screen = [strip.text for strip in app.main._compositor.render_strips()]
        region = rows.region
        shown = [text[region.x : region.right] for text in screen]
        title, first = shown[region.y - 1], shown[region.y]
        assert "98765" in first
        assert title.index("events") + len("events") == first.index("98765") + 5
        assert first.index("98765") + 5 < region.width


async def test_late_messages_are_ignored_while_the_console_closes() -> None:
    """Textual removes the children of a screen first; messages still come then."""
    async with console(CannedDriver()) as (app, pilot):
        box = Box("trace", [line("a")])
        await app.push_screen(box)
        await box.query("*").remove()
        await app.main.query(EquivalentCommand).remove()
        box.post_message(events.ScreenResume())
        app.command("echo a")
        await settle(pilot)
