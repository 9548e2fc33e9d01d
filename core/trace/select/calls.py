"""The calls of a function graph: which events are between an opening and its return.

Depth counts within a task, so events are sorted by task (the idle task by CPU), and by time
within each. A call then extends from its opening to the next event of its task that is not
deeper. Events of other tasks in between are not part of the call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Events = NDArray[np.intp]
"""Numbers of events of the table."""

_SMALL = 1 << 15
"""If all pids are below this, tasks are sorted as 16-bit numbers, which is ten times faster."""


class Calls:
    """Calls among n events. All arrays have shape (n,).

    `in_graph` marks calls and returns, and `opens` the calls that open two rows. `depth` is
    the depth of calls and returns.
    """

    def __init__(
        self,
        events: NDArray[np.void],
        depth: NDArray[np.int64],
        opens: NDArray[np.bool_],
        in_graph: NDArray[np.bool_],
    ) -> None:
        self._ip = events["ip"]
        task = tasks(events)
        self._order: Events = np.argsort(task, kind="stable")
        self._at = np.empty(len(events), np.intp)
        self._at[self._order] = np.arange(len(events))
        self._task = task[self._order]
        self._depth = depth[self._order].astype(np.int16)
        self._opens = opens[self._order]
        self._in_graph = in_graph[self._order]

    def opening(self, event: int) -> int | None:
        """Return the event that opens the innermost call around `event`, or None if it is lost.

        An opening and a return belong to their own call, any other event to the call around it.
        """
        at = int(self._at[event])
        start = int(np.searchsorted(self._task, self._task[at], "left"))
        if self._opens[at]:
            return event
        if not self._in_graph[at]:
            before = np.flatnonzero(self._in_graph[start:at])
            if not len(before):
                return None
            at = start + int(before[-1])
            if self._opens[at]:
                return int(self._order[at])
        elif (found := self._last(start, at, int(self._depth[at]))) is not None:
            # The opening of a return is the last event before it that is not deeper.
            own = self._opens[found] and self._depth[found] == self._depth[at]
            if own and self._ip[self._order[found]] == self._ip[self._order[at]]:
                return int(self._order[found])
        return self._caller(start, at)

    def caller(self, opening: int) -> int | None:
        """Return the event that opens the call around `opening`, or None if it is lost."""
        at = int(self._at[opening])
        return self._caller(int(np.searchsorted(self._task, self._task[at], "left")), at)

    def _caller(self, start: int, at: int) -> int | None:
        caller = self._last(start, at, int(self._depth[at]) - 1)
        return int(self._order[caller]) if caller is not None and self._opens[caller] else None

    def _last(self, start: int, stop: int, depth: int) -> int | None:
        """Return the last position in the range of a call or return not deeper than `depth`."""
        places = np.flatnonzero(self._in_graph[start:stop] & (self._depth[start:stop] <= depth))
        return start + int(places[-1]) if len(places) else None

    def ends(self, openings: Events) -> tuple[Events, Events]:
        """Return where m calls end: the position after their last event, and their return or -1.

        Positions are as in `at`.
        """
        at = self._at[openings]
        stop = np.searchsorted(self._task, self._task[at], "right")
        returns = np.full(len(openings), -1, np.intp)
        for depth in np.unique(self._depth[at]).tolist():
            places = np.flatnonzero(self._in_graph & (self._depth <= depth))
            those = np.flatnonzero(self._depth[at] == depth)
            after = np.searchsorted(places, at[those], "right")
            inside = after < len(places)
            those, ends = those[inside], places[after[inside]]
            inside = ends < stop[those]
            those, ends = those[inside], ends[inside]
            own = ~self._opens[ends] & (self._depth[ends] == depth)
            own &= self._ip[self._order[ends]] == self._ip[openings[those]]
            returns[those[own]] = self._order[ends[own]]
            stop[those] = ends + own
        return stop, returns

    def at(self, openings: Events) -> Events:
        """Return the positions of events in the order by task."""
        places: Events = self._at[openings]
        return places

    def inside(self, openings: Events, stops: Events) -> NDArray[np.bool_]:
        """Mark the events after one of m openings and before the `stops` of its call."""
        change = np.zeros(len(self._at) + 1, np.int64)
        np.add.at(change, self._at[openings] + 1, 1)
        np.add.at(change, stops, -1)
        inside = np.empty(len(self._at), np.bool_)
        inside[self._order] = np.cumsum(change)[:-1] > 0
        return inside

    def sums(self, weights: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the sum of the weights before each position, shape (n + 1,)."""
        return np.concatenate([np.zeros(1, np.intp), np.cumsum(weights[self._order])])

    def outermost(self, among: NDArray[np.bool_]) -> Events:
        """Return, ascending, the openings in `among` that are in no other call of `among`."""
        found = []
        left = np.flatnonzero(among)
        while len(left):
            depth = self._depth[self._at[left]]
            those = left[depth == depth.min()]
            stops, _ = self.ends(those)
            found.append(those)
            left = left[depth > depth.min()]
            left = left[~self.inside(those, stops)[left]]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.intp)


def tasks(events: NDArray[np.void]) -> NDArray[np.int64] | NDArray[np.int16]:
    """Return a number for the task of each event, of its fields `pid` and `cpu`.

    Numbers of different arrays cannot be compared.
    """
    pid, cpu = events["pid"], events["cpu"]
    if len(pid) and pid.min() >= 0 and pid.max() < _SMALL:
        return np.where(pid == 0, -1 - cpu.astype(np.int16), pid.astype(np.int16))
    return pid.astype(np.int64) << 8 | np.where(pid == 0, cpu, 0)
