"""The checkpoints of a session's history: taken while it runs, thinned out when they are many.

A checkpoint stores only the pages that changed (machine/snapshot.py). Checkpoints are dense near
the present and thin out before it: the distance of two grows with the square root of their age, up
to a limit. Distances are in host seconds of running, because a replay takes that long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..errors import HostMemoryError
from ..memento import Restore

BUDGET = 256 << 20
"""Bytes that the checkpoints of a session may take."""

MOST = 1500
"""Largest number of checkpoints, which bounds the time to choose one."""

_OLD_S = 60.0
"""Age in host seconds after which distances no longer grow."""


@dataclass(slots=True)
class Stretch:
    """One run of the machine: until it ends, only the guest does anything.

    A checkpoint within a run can replay this run only, not what the host did after it.
    """

    end: tuple[int, ...] | None = None
    """Virtual ns of each vCPU at its end; None while it lasts."""


@dataclass(slots=True, eq=False)
class Point:
    """A checkpoint at `at`: an entry's number, and the number of its actions already done."""

    at: tuple[int, int]
    times: tuple[int, ...]
    """Virtual ns of each vCPU."""
    spent: float
    """Host seconds of running before it."""
    restore: Restore = field(repr=False)
    stretch: Stretch | None = None
    """The run in which it was taken; None between two actions."""
    pinned: bool = False
    """Whether it must stay, because the action before it cannot be replayed."""


class Points:
    """Checkpoints in the order in which the machine came through them."""

    def __init__(self, size: Callable[[], int], own: Callable[[], int]) -> None:
        """`size` returns the bytes of all stored pages, `own` the other bytes of one checkpoint."""
        self._size = size
        self._own = own
        self._points: list[Point] = []
        self.budget = BUDGET
        self.short = False
        """Whether the host lacked memory for a checkpoint."""

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def __reversed__(self) -> Iterator[Point]:
        return reversed(self._points)

    @property
    def first(self) -> Point | None:
        """The start of the session; None if the host had no memory for it."""
        return self._points[0] if self._points else None

    @property
    def last(self) -> Point | None:
        """The newest checkpoint."""
        return self._points[-1] if self._points else None

    @property
    def last_between(self) -> Point | None:
        """The newest checkpoint between two actions."""
        return next((point for point in reversed(self._points) if point.stretch is None), None)

    @property
    def size(self) -> int:
        """Bytes that the checkpoints take."""
        return self._size() + len(self._points) * self._own()

    def add(self, take: Callable[[], Point]) -> Point | None:
        """Add the checkpoint that `take` makes; None if the host has no memory for it."""
        point = None
        while point is None:
            try:
                point = take()
            except (HostMemoryError, MemoryError):
                self.short = True
                if len(self._points) < 2:
                    return None
                self._drop(len(self._points) // 2)
        at = len(self._points)
        while at and self._points[at - 1].spent > point.spent:
            at -= 1  # those after it belong to what was undone, and `redo` may want them
        self._points.insert(at, point)
        while (self.size > self.budget or len(self._points) > MOST) and self._drop(1):
            pass
        return point

    def forget(self, unwanted: Callable[[Point], bool]) -> None:
        """Drop the checkpoints that are `unwanted`, except the first."""
        self._points[1:] = [point for point in self._points[1:] if not unwanted(point)]

    def clear(self) -> None:
        """Drop all checkpoints."""
        self._points.clear()

    def _drop(self, count: int) -> bool:
        """Drop the `count` least valuable checkpoints; return False if none can be dropped.

        The first and the last stay. Pinned checkpoints go only after all others.
        """
        for _ in range(count):
            points = self._points
            inner = range(1, len(points) - 1)
            able = [n for n in inner if not points[n].pinned] or list(inner)[:1]
            if not able:
                return False
            worth = self._worth()
            del points[min(able, key=lambda n: worth[n])]
        return True

    def _worth(self) -> list[float]:
        """Return each checkpoint's worth: how much longer a replay is without it, for its age.

        What comes after a run can be replayed only from a checkpoint between two actions.
        """
        points = self._points
        now, worth = points[-1].spent, []
        since = points[0].spent  # of the last one from which everything later can be replayed
        last = points[0]
        for point, after in zip(points, (*points[1:], points[-1]), strict=True):
            inside = point.stretch is not None
            before = last.spent if inside and last.stretch is point.stretch else since
            age = min(max(now - point.spent, 0.0), _OLD_S)
            worth.append((after.spent - before) / math.sqrt(age + 0.05))
            last = point
            if not inside:
                since = point.spent
        return worth
