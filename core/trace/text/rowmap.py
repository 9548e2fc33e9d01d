"""Maps the rows of a trace to events: one row for each event, more for a stack trace."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ..buffer.details import HIT
from ..buffer.events import EventTable
from .textcontext import TextOptions


def stack_rows(
    table: EventTable, options: TextOptions
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the events that are stack traces, and the number of extra rows of each."""
    stacks = table.details.stacks
    if not len(stacks) or options.raw or options.hex:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    events = np.flatnonzero(table.events["type"] == TraceType.STACK)
    return events, stacks.lengths[table.events["parent"][events]]


class RowMap:
    """Maps `count` events to rows; each of the (ascending) `events` takes `extra` more rows."""

    OWN: ClassVar[int] = 0
    """The part of the event's own row."""

    CALLS: ClassVar[tuple[int, ...]] = (TraceType.FN, HIT)
    """Types of events that are a call of their site."""

    SITES: ClassVar[tuple[int, ...]] = CALLS
    """Types of events that have a call site."""

    def __init__(self, count: int, events: NDArray[np.intp], extra: NDArray[np.intp]) -> None:
        self._events = events
        self._extra = np.concatenate([np.zeros(1, np.intp), np.cumsum(extra)])
        self._firsts = events + self._extra[:-1]
        self._lasts = self._firsts + extra
        self._count = count

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count + int(self._extra[-1])

    def row_of(self, event: int) -> int:
        """Return the first row of an event."""
        return event + int(self._extra[np.searchsorted(self._events, event)])

    def row_at(self, event: int, part: int) -> int | None:
        """Return the row of a part of `event`, or its last one if it has fewer parts."""
        row = self.row_of(event)
        return min(row + part, self.row_of(event + 1) - 1)

    def of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the event of each of n rows, and the row's part of that event, from 0."""
        if not len(self._events):
            return rows, np.zeros(len(rows), np.intp)
        at = np.searchsorted(self._firsts, rows, "right") - 1
        inside = (at >= 0) & (rows <= self._lasts[at])
        parts = np.where(inside, rows - self._firsts[at], 0)
        return np.where(inside, self._events[at], rows - self._extra[at + 1]), parts
