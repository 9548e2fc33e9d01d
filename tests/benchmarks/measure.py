"""Comparable timings: measure two works in turn, and take the ratio of each pair.

A machine's speed drifts, but neighbouring runs drift alike. So each row is a ratio to
a reference measured in the same run; the absolute figure is shown beside it. Work in
this thread is measured in processor time, work elsewhere in wall time.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]
Clock = Callable[[], float]

SKIPPED = "skipped"

STEADY = 0.015
"""Works are measured again until the median of their ratio has at most this standard error."""
MOST = 5
PATIENCE = 12.0


@dataclass(frozen=True, slots=True)
class Limit:
    """What counts instead of a target that is out of reach.

    A limit within the target proves nothing about it, and does not count: it never asks for more
    than the target.
    """

    value: float
    reason: str
    """What keeps the target out of reach, in a few words."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    measured: str
    """The absolute figure with its unit."""
    ratio: float
    """Ratio to `reference`, median of the pairs."""
    reference: str
    target: str
    met: bool
    """Whether the target is met, or the limit if there is one."""
    note: str = ""
    """The limit that is met, or missed, instead of the target; or why the row is skipped."""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        met = ("yes" if self.met else "NO") if self.measured != SKIPPED else SKIPPED
        ratio = "" if self.measured == SKIPPED else f"{self.ratio:.3f}"
        rest = f"{met} ({self.note})" if self.note else met
        return self.name, self.measured, ratio, self.reference, self.target, rest


def skipped(name: str, reference: str, target: str, reason: str) -> Row:
    """Return the row of what cannot be measured here, for `reason`."""
    return Row(name, SKIPPED, 0.0, reference, target, True, reason)


def at_most(
    name: str,
    measured: str,
    ratio: float,
    reference: str,
    target: float,
    limit: Limit | None = None,
) -> Row:
    """Return a row whose target is the highest ratio; `limit` counts if that is missed."""
    counts = target if limit is None else max(target, limit.value)
    note = _note("<=", ratio <= target, counts > target, limit)
    return Row(name, measured, ratio, reference, f"<= {target:g}", ratio <= counts, note)


def at_least(
    name: str,
    measured: str,
    ratio: float,
    reference: str,
    target: float,
    limit: Limit | None = None,
) -> Row:
    """Return a row whose target is the lowest ratio; `limit` counts if that is missed."""
    counts = target if limit is None else min(target, limit.value)
    note = _note(">=", ratio >= target, counts < target, limit)
    return Row(name, measured, ratio, reference, f">= {target:g}", ratio >= counts, note)


def _note(sign: str, met: bool, counts: bool, limit: Limit | None) -> str:
    """Return the limit if it counts, since the target is missed and is out of reach."""
    if met or limit is None or not counts:
        return ""
    return f"limit {sign} {limit.value:.3g}: {limit.reason}"


def seconds(work: Work, clock: Clock = time.thread_time) -> float:
    """Return the seconds of one call by `clock`, with the garbage collector disabled."""
    gc.collect()
    gc.disable()
    try:
        start = clock()
        work()
        return clock() - start
    finally:
        gc.enable()


def median(work: Work, rounds: int = 5) -> float:
    """Return the median processor seconds of `rounds` calls, after one warm-up."""
    work()
    return statistics.median(seconds(work) for _ in range(rounds))


@dataclass(frozen=True, slots=True)
class Pair:
    """Median seconds of two works measured in turn, and the median of their ratios a / b."""

    a: float
    b: float
    ratio: float


def paired(a: Work, b: Work, rounds: int = 7, clock: Clock = time.thread_time) -> Pair:
    """Measure `a` and `b` in turn by `clock`, at least `rounds` times after one warm-up of each."""
    a()
    b()
    times = in_turn(lambda: seconds(a, clock), lambda: seconds(b, clock), rounds=rounds)
    return Pair(
        statistics.median(t[0] for t in times),
        statistics.median(t[1] for t in times),
        statistics.median(t[0] / t[1] for t in times),
    )


def in_turn(*timed: Callable[[], float], rounds: int) -> list[tuple[float, ...]]:
    """Call `timed`, which return seconds, in turn; return the seconds of each round.

    There are at least `rounds` of them, and more while the medians of the ratios of the first to
    the others are unsteady: up to `MOST` times as many, within `PATIENCE` seconds.
    """
    times: list[tuple[float, ...]] = []
    end = time.perf_counter() + PATIENCE
    while len(times) < rounds or (
        len(times) < MOST * rounds
        and time.perf_counter() < end
        and any(
            unsteadiness([each[0] / each[other] for each in times]) > STEADY
            for other in range(1, len(timed))
        )
    ):
        times.append(tuple(work() for work in timed))
    return times


def unsteadiness(values: list[float]) -> float:
    """Return the standard error of the median of `values`, as a share of it.

    By the quartiles, so that a few outliers do not count.
    """
    if len(values) < 2:
        return 1.0
    low, median, high = statistics.quantiles(values, n=4)
    return 0.93 * (high - low) / math.sqrt(len(values)) / median


def percentile(values: list[float], share: float) -> float:
    """Return the value below which `share` (0..1) of `values` are, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
