"""Which row of a text is of which event, where some events have more lines than one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RowMap:
    """The rows of `count` events, of which those of `events`, rising, have `extra` lines more."""

    def __init__(self, count: int, events: NDArray[np.intp], extra: NDArray[np.intp]) -> None:
        self._events = events
        self._extra = np.concatenate([np.zeros(1, np.intp), np.cumsum(extra)])
        self._firsts = events + self._extra[:-1]
        self._lasts = self._firsts + extra
        self._count = count

    def __len__(self) -> int:
        """Rows there are."""
        return self._count + int(self._extra[-1])

    def row_of(self, event: int) -> int:
        """The first row of an event."""
        return event + int(self._extra[np.searchsorted(self._events, event)])

    def of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The event of each of n rows, and which of its lines that is, from 0."""
        if not len(self._events):
            return rows, np.zeros(len(rows), np.intp)
        at = np.searchsorted(self._firsts, rows, "right") - 1
        inside = (at >= 0) & (rows <= self._lasts[at])
        parts = np.where(inside, rows - self._firsts[at], 0)
        return np.where(inside, self._events[at], rows - self._extra[at + 1]), parts
