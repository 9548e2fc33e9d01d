"""Seconds from key to paint, without a terminal: `python -m tests.benchmarks.headless KEYS STARTS`.

Prints a line of times with the guest paused after each of STARTS runs, one of the first second of
each of these runs, and one with the guest running.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from dynftrace.tui.cli.console import FPS

os.environ.setdefault("TEXTUAL_FPS", FPS)  # as the command line does, before the toolkit

import dynftrace
from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.run import spare_the_interface
from dynftrace.tui.console.widgets.function_list import FunctionList
from dynftrace.tui.console.widgets.rows import Rows
from dynftrace.tui.pictures.picture import settle


class Watched(ConsoleApp):
    """A console that notes the time of each paint."""

    CSS_PATH = str(Path(dynftrace.__file__).parent / "tui" / "console" / "console.tcss")
    painted = 0.0

    def post_display_hook(self) -> None:
        """Note the time."""
        super().post_display_hook()
        self.painted = time.perf_counter()


async def moves(app: Watched, rows: Rows, keys: int) -> list[float]:
    """Press cursor down `keys` times; return the seconds until each is painted."""
    took = []
    for _ in range(keys):
        await asyncio.sleep(0.05)
        wanted = rows.cursor + 1
        begin = time.perf_counter()
        app.simulate_key("j")
        while rows.cursor != wanted or app.painted < begin:
            await asyncio.sleep(0.0005)
        took.append(app.painted - begin)
    return took


async def measure(keys: int, starts: int) -> None:
    """Print the lines."""
    session = Session.open(arches.load(arches.DEFAULT))
    app = Watched(lambda: SessionDriver(session))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        spare_the_interface()
        rows = app.main.query_one(FunctionList)
        await pilot.press("t")
        await settle(pilot)
        idle: list[float] = []
        first: list[float] = []
        for _ in range(starts):
            app.runner.toggle()
            first += await moves(app, rows, keys // starts)
            app.runner.toggle()
            await settle(pilot)
            idle += await moves(app, rows, keys // starts)
        print(*idle)
        print(*first)
        app.runner.toggle()
        await asyncio.sleep(1)
        print(*await moves(app, rows, keys))
        app.runner.toggle()


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))
