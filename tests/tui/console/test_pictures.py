"""The picture screen: its cursor is that of the trace, both ways, and it shows all of a drawing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.session.session import MachineSpec
from dynftrace.core.shell.shell import Shell
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.picture import PictureScreen
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain

from ...support.user import subject


async def test_lanes_and_trace_share_their_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = subject("x86_64").session(MachineSpec())
    Shell(session).execute("echo function > current_tracer; run syscalls")
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:

        async def press(*keys: str) -> None:
            for key in keys:
                await pilot.press(key)
                await settle(pilot)

        await settle(pilot)
        await press("4", "g", "L")
        trace, screen = app.main.trace.events, app.screen
        assert isinstance(screen, PictureScreen) and screen.lanes is not None
        first = trace.time_here()
        assert first is not None
        # The lanes begin with the change of text, the trace with the first event after it.
        assert screen.cursor == first > screen.lanes.span[0]
        await press("n", "n", "n")
        assert screen.cursor == trace.time_here() and screen.cursor > first
        around = screen.around.trace
        assert around is not None and screen.around.here is not None
        assert around.time(screen.around.here) == screen.cursor and screen.around.cursor_in_sight
        whole = screen.end - screen.start
        await press("plus", "plus")
        assert abs(screen.end - screen.start - whole / 4) <= 2  # rounded twice
        assert screen.cursor is not None and screen.start <= screen.cursor < screen.end
        for size in ((80, 24), (200, 50)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            rows = [plain(screen.rows.line(row, size[0])) for row in range(screen.rows.count())]
            assert size[0] // 2 < max(map(len, rows)) <= size[0] - 2
        await press("E", "enter")
        assert app.screen is app.main
        assert [path.suffix for path in tmp_path.iterdir()] == [".svg"]
        await press("H")
        assert app.screen is app.main  # no call was timed
        await press("A")
        assert isinstance(app.screen, PictureScreen) and app.screen.lanes is None


async def test_keys_zoom_into_a_frame_of_the_flame_graph_and_out() -> None:
    session = subject("x86_64").session(MachineSpec())
    shell = Shell(session)
    shell.execute("echo function_graph > current_tracer; run syscalls")
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:

        async def press(*keys: str) -> None:
            for key in keys:
                await pilot.press(key)
                await settle(pilot)

        await settle(pilot)
        await press("T")
        screen = app.screen
        assert isinstance(screen, PictureScreen) and screen.flame is not None
        whole = screen.drawing
        await press("down", "down", "enter")
        task, call = (
            max(each.inner.values(), key=lambda inner: inner.total_ns).name
            for each in screen.way[:2]
        )
        assert screen.equivalent.command == f"flame {task},{call}"
        bar = screen.drawing.sections[0].rows[0].bars[0]
        assert (bar.start, bar.end) == (0, 1) and bar.label == f"{call} 100.0%"
        us = shell.execute(screen.equivalent.command).output.splitlines()[1].rpartition(", ")[2]
        assert us in screen.drawing.title
        await press("backspace")
        assert screen.equivalent.command == f"flame {task}"
        await press("enter", "escape", "up", "up")
        assert (
            app.screen is screen
            and screen.drawing.sections[0].rows[1:] == (whole.sections[0].rows[1:])
        )
        await press("escape")
        assert app.screen is app.main
