"""Timing that can be compared: two things in turn, the ratio of each pair.

A machine's speed drifts; two runs next to each other drift alike. So each row
is a ratio against something measured in the same run, and the absolute figure
stands beside it for the reader. Processor time of this thread is taken where
the work is all here, wall time where another process or thread does it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    measured: str
    """The figure itself, with its unit."""
    ratio: float
    """Against `reference`, median of the pairs."""
    reference: str
    target: str
    met: bool


def seconds(work: Work) -> float:
    """Wall seconds of one call, the collector out of the way."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    finally:
        gc.enable()


def median(work: Work, rounds: int = 5) -> float:
    """Median seconds of `rounds` calls after one that is not counted."""
    work()
    return statistics.median(seconds(work) for _ in range(rounds))


@dataclass(frozen=True, slots=True)
class Pair:
    """Medians in seconds of two works measured in turn, and of their ratios a / b."""

    a: float
    b: float
    ratio: float


def paired(a: Work, b: Work, rounds: int = 7) -> Pair:
    """Measure `a` and `b` in turn, `rounds` times after one warm-up of each."""
    a()
    b()
    times = [(seconds(a), seconds(b)) for _ in range(rounds)]
    return Pair(
        statistics.median(t[0] for t in times),
        statistics.median(t[1] for t in times),
        statistics.median(t[0] / t[1] for t in times),
    )


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0..1) of `values` lie, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
