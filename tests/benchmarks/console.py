"""The console in a terminal: first paint, keys while the guest runs, filtering a long list."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.present.view import ORDERS

from ..support import elf_writer
from .measure import Limit, Row, at_most, paired, percentile, skipped
from .terminal import Painted, Terminal
from .tmux import Tmux

CONSOLE = ["-m", "dynftrace"]
KEYS = 96
STARTS = 6
"""Starts of the guest, each followed by a share of the keys within a second or so, and by as many
while it is paused again."""
PAUSE = 0.05
"""Seconds before each key."""
IDLE = "the same while it is paused"

PAINT = Limit(1.5, "an empty screen of the toolkit takes 1.15; styles and classes the rest")
BOOT = Limit(
    3.8,
    "an empty screen takes 1.15, numpy, the emulator and the disassembler 0.65, making 250 data "
    "classes 0.7, boot and first view 0.35; other modules the rest",
)

FUNCTIONS, FEW = 60_000, 539
"""Lengths of lists: of a large kernel, and of the teaching kernel's."""
FILTERED = 8
"""Times that three letters are typed into the filter, and deleted."""
BACKSPACE = "\x7f"
SETTLED = 1.0
"""Seconds that the guest runs before keys are pressed, so that its buffers are full."""


def rows() -> Iterator[Row]:
    """Yield the console's rows: in a terminal, in tmux if installed, and headless."""
    yield from _start()
    yield from _keys("in a terminal", Terminal, 1.7)
    if shutil.which("tmux"):
        yield from _keys("in tmux", Tmux, 1.7)
    else:
        yield skipped(_key_row("in tmux", ""), IDLE, "<= 1.7", "tmux is not installed")
    yield from _headless()
    yield _filter()


def _start() -> Iterator[Row]:
    """Measure a start up to its first paint, and up to a booted machine."""

    def until(text: str) -> Callable[[], None]:
        def start() -> None:
            with Terminal(CONSOLE) as terminal:
                terminal.wait(text)

        return start

    def toolkit() -> None:
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)

    for what, text, target, limit in (
        ("first paint", "Functions", 1.4, PAINT),
        ("a booted machine", "PAUSED", 3, BOOT),
    ):
        pair = paired(until(text), toolkit, clock=time.perf_counter)
        yield at_most(
            f"console: start to {what}",
            f"{pair.a * 1e3:.0f} ms",
            pair.ratio,
            "importing the toolkit alone",
            target,
            limit,
        )


def _key_row(where: str, when: str) -> str:
    return f"console: key to paint, guest running{when}, {where} (p95)"


def _key_rows(
    where: str, idle: list[float], first: list[float], later: list[float], target: float
) -> Iterator[Row]:
    """Yield the rows of keys in the first second of a run, and of keys later."""
    reference = percentile(idle, 0.95)
    for when, took in ((", first second", first), ("", later)):
        busy = percentile(took, 0.95)
        name, measured = _key_row(where, when), f"{busy * 1e3:.1f} ms"
        yield at_most(name, measured, busy / reference, IDLE, target)


def _keys(
    where: str, open_terminal: Callable[[list[str]], Painted], target: float
) -> Iterator[Row]:
    """Measure cursor down while the guest runs, until the next row is painted."""
    names = _below_cursor()

    def moves(terminal: Painted, keys: int) -> list[float]:
        took = []
        for name in islice(names, keys):
            time.sleep(PAUSE)
            terminal.send("j")
            took.append(terminal.wait(f"▶T {name}"))
        return took

    def switch(terminal: Painted, to: str) -> None:
        terminal.send("c")
        terminal.wait(to)

    with open_terminal(CONSOLE) as terminal:
        terminal.wait("PAUSED")
        time.sleep(0.5)
        terminal.send("t")
        terminal.wait("tracer function")
        idle: list[float] = []
        first: list[float] = []
        for _ in range(STARTS):
            switch(terminal, "RUNNING")
            first += moves(terminal, KEYS // STARTS)
            switch(terminal, "PAUSED")
            idle += moves(terminal, KEYS // STARTS)
        switch(terminal, "RUNNING")
        time.sleep(SETTLED)
        later = moves(terminal, KEYS)
    yield from _key_rows(where, idle, first, later, target)


def _below_cursor() -> Iterator[str]:
    """Return the beginnings of the rows below the one that the console begins with."""
    view = SessionDriver(Session.open(arches.load(arches.DEFAULT))).view()
    functions, start = view.functions, view.start
    assert functions is not None and start is not None
    shown = functions.match("", ORDERS[0])
    index = functions.find(start)
    first = None if index is None else functions.position(shown, index)
    assert first is not None
    return (functions.row(int(shown[at])).name[:12] for at in range(first + 1, len(shown)))


def _headless() -> Iterator[Row]:
    """Measure the same without a terminal, in a separate interpreter."""
    command = [sys.executable, "-m", "tests.benchmarks.headless", str(KEYS), str(STARTS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    idle, first, later = (list(map(float, line.split())) for line in done.stdout.splitlines())
    yield from _key_rows("headless", idle, first, later, 1.4)


def _filter() -> Row:
    """Measure a letter more or less in the filter of a long list, and of a short one."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        lists: list[tuple[int, Terminal, list[float]]] = []
        for count in (FUNCTIONS, FEW):
            path = Path(folder) / f"vmlinux-{count}"
            path.write_bytes(elf_writer.kernel(count))
            terminal = stack.enter_context(Terminal([*CONSOLE, "--kernel", str(path)]))
            terminal.wait("PAUSED")
            time.sleep(0.5)
            terminal.send("/*")
            time.sleep(0.5)
            lists.append((count, terminal, []))
        for letter in ("4", "3", "2", BACKSPACE, BACKSPACE, BACKSPACE) * FILTERED:
            for count, terminal, took in lists:
                time.sleep(PAUSE)
                terminal.send(letter)
                took.append(terminal.wait(f"of {count:,}"))
        many, few = (percentile(took, 0.95) for _, _, took in lists)
    return at_most(
        f"console: filter {FUNCTIONS:,} functions, key to paint (p95)",
        f"{many * 1e3:.1f} ms",
        many / few,
        f"the same with {FEW} functions",
        1.5,
    )
