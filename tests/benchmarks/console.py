"""The console in a terminal: first paint, keys while the guest runs, filtering a long list."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dynftrace import arches
from dynftrace.core.session.session import Session

from ..support import elf_writer
from .measure import Row, median, percentile
from .terminal import Painted, Terminal
from .tmux import Tmux

CONSOLE = ["-m", "dynftrace"]
KEYS = 60
FUNCTIONS = 60_000
SETTLED = 1.0
"""Seconds that the guest runs before keys are pressed, so that its buffers are full."""


def rows() -> Iterator[Row]:
    """Yield the console's rows: in a terminal, in tmux if installed, and headless."""
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
    """Measure cursor down while the guest runs, until the next row is painted."""
    session = Session.open(arches.load(arches.DEFAULT))
    listed = session.boot.tracefs.read("available_filter_functions")
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
        time.sleep(SETTLED)
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
    """Measure the same without a terminal, in a separate interpreter."""
    command = [sys.executable, "-m", "tests.benchmarks.headless", str(KEYS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    idle, busy = (
        percentile(list(map(float, line.split())), 0.95) for line in done.stdout.splitlines()
    )
    return Row(
        "console: key to paint, guest running, headless (p95)",
        f"{busy * 1e3:.1f} ms",
        busy / idle,
        "the same while it is paused",
        "<= 20 ms",
        busy <= 0.020,
    )


def _filter() -> Row:
    """Measure one more letter in the filter of a long list, until the list is painted."""
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
