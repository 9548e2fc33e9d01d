"""Time travel: seconds of `goto` after a long run, and what its checkpoints take.

The whole run takes ten minutes. A shorter run gets a part of the budget in proportion,
so that its checkpoints are as far apart. DYNFTRACE_TRAVEL_S sets its seconds; 600 is the run
itself. All seconds are processor time: 120 in all for the default, of which 40 are the runs.

A way back restores a checkpoint and runs what followed again. Its ratio is to the time which that
stretch took at first, so that it does not depend on how far apart the checkpoints are.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest.mock import patch

import numpy as np

from dynftrace import arches
from dynftrace.core.session.history import History
from dynftrace.core.session.points import BUDGET, Point
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from .measure import Row, at_most

RUN_S = float(os.environ.get("DYNFTRACE_TRAVEL_S", "20"))
WHOLE_S = 600.0
EVENTS = int(os.environ.get("DYNFTRACE_TRAVEL_EVENTS", "30"))
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
    ways = _Ways(shell)
    goes = [ways.there(f"goto {dice.randint(1, held)}", "goto -") for _ in range(EVENTS)]
    for _ in range(INSTANTS):
        count = dice.randint(1, session.history.lines)
        ways.there(f"back {count}", f"redo {count}")
    yield ways.row(name)
    times = [dice.randint(first, last) for _ in range(INSTANTS)]
    instants = [ways.there(f"goto {ns // 10**9}.{ns % 10**9:09d}", "goto -") for ns in times]
    of = f"the run again: {ran:.0f} s, {kept} checkpoints, {size / 2**20:.0f} MB"
    held_by = f"goto one of {held:,} events ({name})"
    for what, took in (
        (f"{held_by}, median", statistics.median(goes)),
        (f"{held_by}, p95", statistics.quantiles(goes, n=20)[-1]),
        (f"goto any instant ({name}), slowest of {INSTANTS}", max(instants)),
    ):
        yield Row(what, f"{took:.2f} s", took / ran, of, "(no target)", True)
    what, part = f"checkpoints ({name})", size / points.budget
    yield Row(what, f"{size / 2**20:.1f} MB", part, "their budget", "<= 1", part <= 1)


class _Ways:
    """Ways back in a session, with the seconds that the stretches they run again took at first."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        bounds = shell.session.history.bounds
        self._times = np.array([max(bound.times) for bound in bounds])
        self._spent = np.array([bound.spent for bound in bounds])
        self._took: list[float] = []
        self._again: list[float] = []

    def there(self, command: str, back: str) -> float:
        """Return the seconds of `command`; then return from where it went by `back`."""
        plain = History.replay

        def noted(
            history: History, what: str, start: Point, until: int
        ) -> AbstractContextManager[None]:
            first = float(np.interp(until, self._times, self._spent))
            self._again.append(first - start.spent)
            return plain(history, what, start, until)

        with patch.object(History, "replay", noted):
            begin = time.process_time()
            outcome = self._shell.execute(command)
            took = time.process_time() - begin
        assert not outcome.status, outcome.error
        self._took.append(took)
        self._shell.execute(back)
        return took

    def row(self, name: str) -> Row:
        """Return the row of all ways so far."""
        took, again = sum(self._took), sum(self._again)
        what, measured = (
            f"goto an event, or back some lines ({name})",
            f"{took / len(self._took):.2f} s",
        )
        return at_most(what, measured, took / again, "the stretch run again, at first", 1.3)
