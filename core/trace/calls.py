"""The calls of a function graph: which events lie between an opening and its return.

Depth counts within a task, so events are laid out task by task, each with its own in the
order of time; the idle task has one a CPU. A call then goes from its opening to the next
event of its task that is not deeper. What other tasks do meanwhile is none of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Events = NDArray[np.intp]
"""Indices of events of the table."""

_SMALL = 1 << 15
"""With pids below this, tasks are sorted by 16 bits, which takes a tenth of the time."""


class Calls:
    """Found for n events: `told` are calls and returns, `opens` those of them that open a call.

    `depth` is that of those told. All have shape (n,).
    """

    def __init__(
        self,
        events: NDArray[np.void],
        depth: NDArray[np.int64],
        opens: NDArray[np.bool_],
        told: NDArray[np.bool_],
    ) -> None:
        self._ip = events["ip"]
        task = _tasks(events)
        self._order: Events = np.argsort(task, kind="stable")
        self._at = np.empty(len(events), np.intp)
        self._at[self._order] = np.arange(len(events))
        self._task = task[self._order]
        self._depth = depth[self._order].astype(np.int16)
        self._opens = opens[self._order]
        self._told = told[self._order]

    def opening(self, event: int) -> int | None:
        """The event that opens the innermost call `event` is part of; None where that is gone.

        An opening and a return are part of their own call, anything else of its caller's.
        """
        at = int(self._at[event])
        start = int(np.searchsorted(self._task, self._task[at], "left"))
        if self._opens[at]:
            return event
        if not self._told[at]:
            before = np.flatnonzero(self._told[start:at])
            if not len(before):
                return None
            at = start + int(before[-1])
            if self._opens[at]:
                return int(self._order[at])
        elif (found := self._last(start, at, int(self._depth[at]))) is not None:
            # Where it is a return, its opening is the last that is not deeper.
            own = self._opens[found] and self._depth[found] == self._depth[at]
            if own and self._ip[self._order[found]] == self._ip[self._order[at]]:
                return int(self._order[found])
        return self._caller(start, at)

    def caller(self, opening: int) -> int | None:
        """The event that opens the call in which `opening` lies; None where that is gone."""
        at = int(self._at[opening])
        return self._caller(int(np.searchsorted(self._task, self._task[at], "left")), at)

    def _caller(self, start: int, at: int) -> int | None:
        caller = self._last(start, at, int(self._depth[at]) - 1)
        return int(self._order[caller]) if caller is not None and self._opens[caller] else None

    def _last(self, start: int, stop: int, depth: int) -> int | None:
        """The last place in that range of a call or return no deeper than `depth`."""
        places = np.flatnonzero(self._told[start:stop] & (self._depth[start:stop] <= depth))
        return start + int(places[-1]) if len(places) else None

    def ends(self, openings: Events) -> tuple[Events, Events]:
        """Where m calls end: the place behind the last event, and their return or -1.

        Places are those of `at`.
        """
        at = self._at[openings]
        stop = np.searchsorted(self._task, self._task[at], "right")
        returns = np.full(len(openings), -1, np.intp)
        for depth in np.unique(self._depth[at]).tolist():
            places = np.flatnonzero(self._told & (self._depth <= depth))
            those = np.flatnonzero(self._depth[at] == depth)
            behind = np.searchsorted(places, at[those], "right")
            inside = behind < len(places)
            those, ends = those[inside], places[behind[inside]]
            inside = ends < stop[those]
            those, ends = those[inside], ends[inside]
            own = ~self._opens[ends] & (self._depth[ends] == depth)
            own &= self._ip[self._order[ends]] == self._ip[openings[those]]
            returns[those[own]] = self._order[ends[own]]
            stop[those] = ends + own
        return stop, returns

    def at(self, openings: Events) -> Events:
        """The places of events in the layout by tasks."""
        places: Events = self._at[openings]
        return places

    def inside(self, openings: Events, stops: Events) -> NDArray[np.bool_]:
        """Which of the n events lie behind m openings and before their calls' `stops`."""
        change = np.zeros(len(self._at) + 1, np.int64)
        np.add.at(change, self._at[openings] + 1, 1)
        np.add.at(change, stops, -1)
        inside = np.empty(len(self._at), np.bool_)
        inside[self._order] = np.cumsum(change)[:-1] > 0
        return inside

    def sums(self, weights: NDArray[np.intp]) -> NDArray[np.intp]:
        """Shape (n + 1,): what the events before each place weigh together."""
        return np.concatenate([np.zeros(1, np.intp), np.cumsum(weights[self._order])])

    def outermost(self, among: NDArray[np.bool_]) -> Events:
        """The openings of calls that lie in no other of those `among` the n events, rising."""
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


def _tasks(events: NDArray[np.void]) -> NDArray[np.int64] | NDArray[np.int16]:
    """A number for each event's task."""
    pid, cpu = events["pid"], events["cpu"]
    if len(pid) and pid.min() >= 0 and pid.max() < _SMALL:
        return np.where(pid == 0, -1 - cpu.astype(np.int16), pid.astype(np.int16))
    return pid.astype(np.int64) << 8 | np.where(pid == 0, cpu, 0)
