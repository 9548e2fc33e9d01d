"""The console in a terminal: first paint, keys while the guest runs, a long list filtered."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dynftrace
from dynftrace import arches
from dynftrace.core.session import Session
from dynftrace.tui.app import ConsoleApp
from dynftrace.tui.driver import SessionDriver
from dynftrace.tui.picture import settle
from dynftrace.tui.widgets.function_list import FunctionList
from dynftrace.tui.widgets.rows import Rows

from ..support import elf_writer
from .measure import Row, median, percentile
from .terminal import Painted, Terminal
from .tmux import Tmux

CONSOLE = ["-m", "dynftrace"]
KEYS = 60
FUNCTIONS = 60_000


class Watched(ConsoleApp):
    """A console that says when it has painted."""

    CSS_PATH = str(Path(dynftrace.__file__).parent / "tui" / "console.tcss")
    painted = 0.0

    def post_display_hook(self) -> None:
        """Note the time."""
        self.painted = time.perf_counter()


def rows() -> Iterator[Row]:
    """The rows of the console: in a terminal, in tmux where there is one, and headless."""
    yield _first_paint()
    yield _keys("in a terminal", Terminal)
    if shutil.which("tmux"):
        yield _keys("in tmux", Tmux)
    yield _headless()
    yield _filter()


def _first_paint() -> Row:
    def paint() -> None:
        with Terminal(CONSOLE) as terminal:
            terminal.wait("Functions")

    def toolkit() -> None:
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)

    painted, imported = median(paint), median(toolkit)
    return Row(
        "console: start to first paint",
        f"{painted * 1e3:.0f} ms",
        painted / imported,
        "importing the toolkit alone",
        "<= 600 ms",
        painted <= 0.6,
    )


def _keys(where: str, open_terminal: Callable[[list[str]], Painted]) -> Row:
    """Cursor down while the guest runs: until the next function's row is painted."""
    listed = Session.open(arches.load(arches.DEFAULT)).tracefs.read("available_filter_functions")
    names = [name[:12] for name in listed.split()]

    def moves(terminal: Painted, first: int, state: str) -> list[float]:
        took = []
        for name in names[first : first + KEYS]:
            time.sleep(0.05)
            terminal.send("j")
            took.append(terminal.wait(f"▶{state} {name}"))
        return took

    with open_terminal(CONSOLE) as terminal:
        terminal.wait("PAUSED")
        time.sleep(0.5)
        idle = percentile(moves(terminal, 1, "·"), 0.95)
        terminal.send("t")
        terminal.wait("tracer function")
        terminal.send("c")
        terminal.wait("RUNNING")
        busy = percentile(moves(terminal, 1 + KEYS, "T"), 0.95)
    return Row(
        f"console: key to paint, guest running, {where} (p95)",
        f"{busy * 1e3:.1f} ms",
        busy / idle,
        "the same while it is paused",
        "<= 20 ms",
        busy <= 0.020,
    )


def _headless() -> Row:
    """Cursor down while the guest runs, without a terminal: until the app has painted it."""

    async def moves(app: Watched, rows: Rows) -> list[float]:
        took = []
        for _ in range(KEYS):
            await asyncio.sleep(0.05)
            wanted = rows.cursor + 1
            begin = time.perf_counter()
            app.simulate_key("j")
            while rows.cursor != wanted or app.painted < begin:
                await asyncio.sleep(0.001)
            took.append(app.painted - begin)
        return took

    async def measure() -> tuple[float, float]:
        session = Session.open(arches.load(arches.DEFAULT))
        app = Watched(lambda: SessionDriver(session))
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            rows = app.query_one(FunctionList)
            rows.focus()
            idle = percentile(await moves(app, rows), 0.95)
            await pilot.press("t")
            await settle(pilot)
            app.toggle_run()
            busy = percentile(await moves(app, rows), 0.95)
            app.toggle_run()
            return idle, busy

    idle, busy = asyncio.run(measure())
    return Row(
        "console: key to paint, guest running, headless (p95)",
        f"{busy * 1e3:.1f} ms",
        busy / idle,
        "the same while it is paused",
        "<= 20 ms",
        busy <= 0.020,
    )


def _filter() -> Row:
    """One more letter in the filter line of a long list, until the list is painted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(FUNCTIONS))
        with Terminal([*CONSOLE, "--kernel", str(path)]) as terminal:
            terminal.wait("PAUSED")
            time.sleep(0.5)
            terminal.send("/*")
            took = []
            for letter in "9876":
                time.sleep(0.3)
                terminal.send(letter)
                took.append(terminal.wait(f"of {FUNCTIONS:,}"))
    worst = max(took)
    return Row(
        "console: filter 60,000 functions, key to paint",
        f"{worst * 1e3:.1f} ms",
        worst / sorted(took)[len(took) // 2],
        "its own median",
        "<= 50 ms",
        worst <= 0.050,
    )
