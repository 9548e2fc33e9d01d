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
        assert screen.cursor == trace.time_here() == screen.lanes.span[0]
        await press("n", "n", "n")
        assert screen.cursor == trace.time_here() != screen.lanes.span[0]
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
