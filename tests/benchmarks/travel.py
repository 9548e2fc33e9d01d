"""Time travel: seconds of `goto` after a long run, and what its checkpoints take.

The run of the targets takes ten minutes. A shorter run gets a part of the budget in proportion,
so that its checkpoints are as far apart. DYNFTRACE_TRAVEL_S sets its seconds; 600 is the run
itself. All seconds are processor time: 100 in all for the default, of which 40 are the runs.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator

from dynftrace import arches
from dynftrace.core.session.points import BUDGET
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from .measure import Row

RUN_S = float(os.environ.get("DYNFTRACE_TRAVEL_S", "20"))
WHOLE_S = 600.0
EVENTS = int(os.environ.get("DYNFTRACE_TRAVEL_EVENTS", "40"))
INSTANTS = EVENTS // 3

LEAST = 16 << 20
"""Bytes of budget for the shortest run: a few checkpoints of a full ring buffer."""

KINDS = (
    ("all functions", "echo > set_ftrace_filter"),
    ("one function", "echo schedule > set_ftrace_filter"),
)
"""A buffer that holds the end of the run only, and one that holds all of it."""


def rows() -> Iterator[Row]:
    """Yield the rows."""
    for name, setup in KINDS:
        yield from _rows(name, setup)


def _rows(name: str, setup: str) -> Iterator[Row]:
    session = Session.open(arches.load(arches.DEFAULT))
    shell, points = Shell(session), session.history.points
    points.budget = max(int(BUDGET * min(RUN_S / WHOLE_S, 1.0)), LEAST) + points.size
    begin, first = time.process_time(), session.now
    shell.execute(f"{setup}; echo function > current_tracer")
    while time.process_time() - begin < RUN_S:
        shell.execute("run syscalls 100")
    ran = time.process_time() - begin
    held, dice = len(session.boot.array.text()), random.Random(1)
    size, kept, last = points.size, len(points), session.now
    goes = [_seconds(shell, f"goto {dice.randint(1, held)}") for _ in range(EVENTS)]
    times = [dice.randint(first, last) for _ in range(INSTANTS)]
    instants = [_seconds(shell, f"goto {ns // 10**9}.{ns % 10**9:09d}") for ns in times]
    of = f"{ran:.0f} s run, {kept} checkpoints, {size / 2**20:.0f} MB"
    median, p95 = statistics.median(goes), statistics.quantiles(goes, n=20)[-1]
    what = f"goto one of {held:,} events ({name})"
    yield Row(f"{what}, median", f"{median:.2f} s", median / ran, of, "< 1 s", median < 1)
    yield Row(f"{what}, p95", f"{p95:.2f} s", p95 / ran, of, "< 3 s", p95 < 3)
    worst = max(instants)
    what = f"goto any instant ({name}), slowest of {INSTANTS}"
    yield Row(what, f"{worst:.2f} s", worst / ran, of, "< 15 s", worst < 15)
    what, part = f"checkpoints ({name})", size / points.budget
    yield Row(what, f"{size / 2**20:.1f} MB", part, "their budget", "<= 1", part <= 1)


def _seconds(shell: Shell, command: str) -> float:
    """Return the seconds of `command`; then return from where it went."""
    begin = time.process_time()
    outcome = shell.execute(command)
    took = time.process_time() - begin
    assert not outcome.status, outcome.error
    shell.execute("goto -")
    return took
