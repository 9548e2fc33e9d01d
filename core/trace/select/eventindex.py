"""Keys of events by time, CPU and address, to find the same event in a later table.

Events move to other rows when the ring buffer wraps; their keys stay. Two events of one CPU
can have the same time, CPU and address if the clock stands still, so such events are
numbered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..buffer.events import EventTable

KEY = np.dtype([("time", "u8"), ("cpu", "u1"), ("ip", "u8"), ("nth", "u4")])
"""The key of an event: the fields of a `RowKey` without its part."""

MOST = 4096
"""Maximum number of events with the same time that are compared."""


class EventIndex:
    """The keys of a table's events, and the event of each key."""

    def __init__(self, table: EventTable) -> None:
        self._events = table.events
        self._addresses = table.addresses
        times = np.ascontiguousarray(table.events["ts"])
        # Times go back only in a damaged page.
        self._order: NDArray[np.intp] | None = None
        if (times[1:] < times[:-1]).any():
            self._order = np.argsort(times, kind="stable")
            times = times[self._order]
        self._times = times

    def keys(self, events: NDArray[np.intp]) -> NDArray[np.void]:
        """Return the KEY records of n events, given by their number."""
        rows = self._events[events]
        keys = np.zeros(len(events), KEY)
        keys["time"], keys["cpu"] = rows["ts"], rows["cpu"]
        keys["ip"] = self._addresses[rows["ip"]] if len(rows) else 0
        at = events if self._order is None else np.argsort(self._order)[events]
        first = np.searchsorted(self._times, keys["time"], "left")
        for back in range(1, min(int((at - first).max(initial=0)), MOST) + 1):
            before = np.flatnonzero(at - back >= first)
            same = before[self._same(keys[before], at[before] - back)]
            keys["nth"][same] += np.uint32(1)
        return keys

    def events(self, keys: NDArray[np.void]) -> NDArray[np.intp]:
        """Return the event of each of n keys, -1 if the table does not have it."""
        first = np.searchsorted(self._times, keys["time"], "left")
        count = np.searchsorted(self._times, keys["time"], "right") - first
        found = np.full(len(keys), -1, np.intp)
        seen = np.zeros(len(keys), np.uint32)
        for step in range(min(int(count.max(initial=0)), MOST)):
            left = np.flatnonzero((step < count) & (found < 0))
            same = left[self._same(keys[left], first[left] + step)]
            hit = same[seen[same] == keys["nth"][same]]
            found[hit] = self._event(first[hit] + step)
            seen[same] += np.uint32(1)
        return found

    def _event(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        return at if self._order is None else self._order[at]

    def _same(self, keys: NDArray[np.void], at: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Compare CPU and address of `keys` with the events at these positions by time."""
        events = self._events[self._event(at)]
        same: NDArray[np.bool_] = events["cpu"] == keys["cpu"]
        same &= self._addresses[events["ip"]] == keys["ip"]
        return same
