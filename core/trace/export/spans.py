"""The calls of a function graph as spans of time, each with its callers.

A return event has both times of its call, so every return gives a complete span, even if its call
event was overwritten. Calls without a return are open: they serve only as callers. Depth counts
within a task, whose calls are nested: the caller of a span is the next return of its task, one
level up, that began before it, or else an open call of that level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ..buffer.events import EventTable
from ..select.calls import tasks

SPAN = np.dtype(
    [
        ("ip", "u4"),
        ("pid", "i4"),
        ("cpu", "u1"),
        ("depth", "i4"),
        ("start", "i8"),
        ("end", "i8"),
        ("caller", "i8"),
        ("path", "i8"),
    ]
)
"""A span: `ip` is a number of `EventTable.addresses`, `cpu` that of the return, `start` and `end`
are in ns, `caller` is the row of the caller or -1, `path` is a row of `Spans.paths`."""

PATH = np.dtype([("caller", "i8"), ("ip", "u4"), ("pid", "i4"), ("cpu", "i2")])
"""A chain of calls: the path of the caller or -1, the function, and the task. `cpu` is -1, but for
the idle tasks, all of which have pid 0, it is their CPU."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Spans by task and time of return; open calls follow the others of their task."""

    spans: NDArray[np.void]
    """SPAN records, shape (n,)."""
    open: NDArray[np.bool_]
    """Which spans have no return, shape (n,); their `end` is their `start`."""
    paths: NDArray[np.void]
    """PATH records, callers first."""

    def own_ns(self) -> NDArray[np.int64]:
        """Return the ns of each span without the spans that it called, shape (n,)."""
        own: NDArray[np.int64] = self.spans["end"] - self.spans["start"]
        inner = ~self.open & (self.spans["caller"] >= 0)
        np.subtract.at(own, self.spans["caller"][inner], own[inner].copy())
        own[self.open] = 0
        np.maximum(own, 0, out=own)
        return own


def spans_of(table: EventTable) -> Spans:
    """Return the spans of a table; empty if nothing was traced by the graph tracer."""
    spans, is_open = _collect(table.events, table)
    task = tasks(spans)
    # By task; within a task, returns in their order, then open calls, from the innermost outwards.
    number = np.arange(len(spans))
    order = np.lexsort((np.where(is_open, -number, number), is_open, task))
    spans, is_open, task = spans[order], is_open[order], task[order]
    _find_callers(spans, task)
    return Spans(spans, is_open, _find_paths(spans))


def _collect(
    events: NDArray[np.void], table: EventTable
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Return spans in the order of their events, and which of them are open."""
    is_return = events["type"] == TraceType.GRAPH_RET
    is_call = events["type"] == TraceType.GRAPH_ENT
    details = table.details.returns[events["parent"][is_return]]
    returns = np.zeros(len(details), SPAN)
    for name in ("ip", "pid", "cpu"):
        returns[name] = events[name][is_return]
    returns["depth"] = details["depth"]
    returns["start"] = details["calltime"].astype(np.int64)
    returns["end"] = details["rettime"].astype(np.int64)
    called = events[is_call]
    calls = np.zeros(len(called), SPAN)
    for name in ("ip", "pid", "cpu"):
        calls[name] = called[name]
    calls["depth"] = called["parent"]
    calls["start"] = calls["end"] = called["ts"].astype(np.int64)
    # A call has ended if its task has a later event at its depth or above: its return or another
    # call.
    at_call, at_return = np.flatnonzero(is_call), np.flatnonzero(is_return)
    rows = np.concatenate([at_call, at_return])
    depth = np.concatenate([calls["depth"], returns["depth"]])
    task = tasks(events[rows])
    last = np.zeros(len(rows), np.bool_)
    order = np.lexsort((rows, task))
    least = _least_after(depth[order], task[order])
    last[order] = least > depth[order]
    still_open = last[: len(calls)]
    both = np.concatenate([returns, calls[still_open]])
    is_open = np.arange(len(both)) >= len(returns)
    by_event = np.argsort(np.concatenate([at_return, at_call[still_open]]), kind="stable")
    return both[by_event], is_open[by_event]


def _least_after(
    depth: NDArray[np.int32], task: NDArray[np.int64] | NDArray[np.int16]
) -> NDArray[np.int64]:
    """Return the least depth after each event in its task; a large number at the end of a task."""
    far = np.int64(1) << 40
    # Tasks in order get descending offsets, so that no later task has a smaller value.
    number = np.cumsum(np.concatenate([[0], (task[1:] != task[:-1]).astype(np.int64)]))[: len(task)]
    shifted = depth.astype(np.int64) + number * far
    after = np.minimum.accumulate(shifted[::-1])[::-1]
    least = np.full(len(depth), far, np.int64)
    least[:-1] = after[1:] - number[:-1] * far
    return least


def _find_callers(spans: NDArray[np.void], task: NDArray[np.int64] | NDArray[np.int16]) -> None:
    """Fill the field `caller`."""
    spans["caller"] = -1
    depth = spans["depth"]
    levels = {level: np.flatnonzero(depth == level) for level in np.unique(depth).tolist()}
    for level, rows in levels.items():
        above = levels.get(level - 1)
        if above is None:
            continue
        after = np.searchsorted(above, rows, "right")
        inside = after < len(above)
        rows, callers = rows[inside], above[after[inside]]
        around = (task[callers] == task[rows]) & (spans["start"][callers] <= spans["start"][rows])
        spans["caller"][rows[around]] = callers[around]


def _find_paths(spans: NDArray[np.void]) -> NDArray[np.void]:
    """Fill the field `path`, and return the paths."""
    found: list[NDArray[np.void]] = []
    count = 0
    spans["path"] = -1
    for level in np.unique(spans["depth"]).tolist():
        rows = np.flatnonzero(spans["depth"] == level)
        paths = np.zeros(len(rows), PATH)
        caller = spans["caller"][rows]
        paths["caller"] = np.where(caller >= 0, spans["path"][caller], -1)
        paths["ip"] = spans["ip"][rows]
        paths["pid"] = spans["pid"][rows]
        paths["cpu"] = np.where(spans["pid"][rows] == 0, spans["cpu"][rows].astype(np.int16), -1)
        unique, inverse = np.unique(paths, return_inverse=True)
        spans["path"][rows] = count + inverse.ravel()
        count += len(unique)
        found.append(unique)
    return np.concatenate(found) if found else np.empty(0, PATH)
