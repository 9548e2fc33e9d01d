"""Maps the rows of a function graph to events, and finds the place of each event in the tree.

A function whose call and return are adjacent is a *leaf* and has one row; any other call
has two, an opening and a closing one. The kernel draws a box of four rows where a CPU switches to
another task, and arrows around the functions of an interrupt. All of these depend on the
neighbouring events of the same CPU and are computed for the whole table at once. Source:
kernel/trace/trace_functions_graph.c, 6.1.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...abi import FTRACE_RETFUNC_DEPTH, TraceType
from ..buffer.events import EventTable

TASKS, ARROW_IN, OWN, ARROW_OUT = 1, 4, 5, 6
"""Parts of an event: the tasks of a switch, the arrow into an interrupt, its own row, and the
arrow out. Parts 0, 2 and 3 are the other rows of the box around a switch."""

DASHES = (0, 2)
STACK = 7
"""First part of the addresses of a stack trace."""


class GraphRows:
    """The rows of a table of calls and returns.

    `stacks` are the events that are stack traces and their extra rows (see `stack_rows`);
    `irq_text` is the address range of interrupt entry points, and `irqs` is false to hide the
    functions they call.
    """

    OWN: ClassVar[int] = OWN
    """The part of the event's own row."""

    CALLS: ClassVar[tuple[int, ...]] = (TraceType.FN, TraceType.GRAPH_ENT)
    """Types of events that are a call of their site."""

    SITES: ClassVar[tuple[int, ...]] = (*CALLS, TraceType.GRAPH_RET)
    """Types of events that have a call site."""

    def __init__(
        self,
        table: EventTable,
        stacks: tuple[NDArray[np.intp], NDArray[np.intp]],
        irq_text: range = range(0),
        irqs: bool = True,
    ) -> None:
        events = table.events
        kind = events["type"]
        entry, returned = kind == TraceType.GRAPH_ENT, kind == TraceType.GRAPH_RET
        self.in_graph = entry | returned
        """Which events are calls or returns."""
        before, after = _neighbours(events["cpu"])
        leaf = entry & (after >= 0)
        for name in ("pid", "ip"):
            leaf &= events[name][after] == events[name]
        leaf &= returned[after]
        self.leaf = leaf
        """Which events are the call of a leaf; their row shows the return too."""
        consumed = returned & (before >= 0) & leaf[before]
        self.return_of = np.where(leaf, after, np.arange(len(events)))
        """The event whose duration each event's row shows."""
        depth = np.where(entry, events["parent"], 0).astype(np.int64)
        if len(table.details.returns):
            depth[returned] = table.details.returns["depth"][events["parent"][returned]]
        self.depth = np.minimum(depth, FTRACE_RETFUNC_DEPTH)
        """Depth of each call and return; 0 for other events."""
        self.opens = opens = entry & ~leaf
        """Which events open a call of two rows."""
        self.matched = _matched(events, self.depth, opens, self.in_graph)
        """Which returns directly follow their opening, so that the kernel omits the name."""
        self.level = _levels(events["cpu"], self.in_graph, self.depth + opens)
        """Depth of the call that surrounds each event."""
        of_irq = np.zeros(len(events), np.bool_)
        hidden = of_irq
        if irq_text:
            inside = (table.addresses >= irq_text.start) & (table.addresses < irq_text.stop)
            of_irq = self.in_graph & inside[events["ip"]]
            if not irqs:
                hidden = _from_to(events["cpu"], self.depth, of_irq & entry, self.in_graph)
        shown = np.flatnonzero(~(consumed | hidden))
        previous, _ = _neighbours(events["cpu"][shown])
        pid = events["pid"][shown]
        switched = (previous >= 0) & (pid[previous] != pid)
        self.switched_from = dict(
            zip(shown[switched].tolist(), pid[previous[switched]].tolist(), strict=True)
        )
        """The pid that ran before, by each event with a box above it."""
        has = np.zeros((len(shown), STACK), np.bool_)
        has[:, :ARROW_IN] = switched[:, None]
        has[:, ARROW_IN] = (of_irq & entry)[shown]
        has[:, OWN] = True
        has[:, ARROW_OUT] = (of_irq & ~opens)[shown]
        at, parts = np.nonzero(has)
        stacked, extra = stacks
        count = np.ones(len(at), np.intp)
        count[(parts == OWN) & np.isin(shown[at], stacked)] += extra
        at, starts = np.repeat(at, count), np.repeat(np.cumsum(count) - count, count)
        caller = np.arange(len(at)) - starts
        self.events: NDArray[np.intp] = shown[at]
        """The event of each row."""
        self.parts = np.where(caller, STACK + caller - 1, np.repeat(parts, count))
        """Which part of its event each row is."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.events)

    def of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the event of each of n rows, and the row's part of that event."""
        return self.events[rows], self.parts[rows]

    def row_of(self, event: int) -> int:
        """Return the first row of an event, or of the next one shown."""
        return int(np.searchsorted(self.events, event))

    def row_at(self, event: int, part: int) -> int | None:
        """Return the row of a part of `event`, or its own row; None if it has no rows."""
        low, high = np.searchsorted(self.events, [event, event + 1])
        rows = np.arange(low, high)
        for wanted in (part, OWN):
            found = rows[self.parts[low:high] == wanted]
            if len(found):
                return int(found[0])
        return None

    def own_rows(self, events: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return each event's own row, -1 if it is not shown."""
        own = np.flatnonzero(self.parts == OWN)
        at = np.searchsorted(self.events[own], events)
        rows = own[np.minimum(at, len(own) - 1)] if len(own) else np.full(len(events), -1)
        return np.where(self.events[rows] == events, rows, -1) if len(own) else rows

    @cached_property
    def boxed(self) -> NDArray[np.bool_]:
        """Which rows belong to the box around a switch of tasks."""
        boxed: NDArray[np.bool_] = self.parts < ARROW_IN
        return boxed

    @cached_property
    def arrows(self) -> NDArray[np.bool_]:
        """Which rows are the arrow into an interrupt."""
        arrows: NDArray[np.bool_] = self.parts == ARROW_IN
        return arrows


def _neighbours(cpu: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the previous and the next event on the CPU of each event; -1 for none."""
    order = np.argsort(cpu, kind="stable")
    same = cpu[order][1:] == cpu[order][:-1]
    before, after = (np.full(len(cpu), -1, np.intp) for _ in range(2))
    before[order[1:][same]] = order[:-1][same]
    after[order[:-1][same]] = order[1:][same]
    return before, after


def _levels(
    cpu: NDArray[np.uint8], in_graph: NDArray[np.bool_], after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the level of each event: `after` of the last `in_graph` event up to it on its CPU."""
    order = np.argsort(cpu, kind="stable")
    place = np.where(in_graph[order], np.arange(len(cpu)), -1)
    last = np.maximum.accumulate(place) if len(cpu) else place
    same = (last >= 0) & (cpu[order][last] == cpu[order])
    levels = np.zeros(len(cpu), np.int64)
    levels[order] = np.where(same, after[order][last], 0)
    return levels


def _from_to(
    cpu: NDArray[np.uint8],
    depth: NDArray[np.int64],
    calls: NDArray[np.bool_],
    in_graph: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Mark the `in_graph` events between one of `calls` and its return, both included, by CPU."""
    order = np.argsort(cpu, kind="stable")
    place = np.empty(len(cpu), np.intp)
    place[order] = np.arange(len(cpu))
    rows = np.flatnonzero(in_graph)
    level = cpu[rows].astype(np.int64) * (FTRACE_RETFUNC_DEPTH + 1) + depth[rows]
    rows = rows[np.argsort(level, kind="stable")]
    starts = np.flatnonzero(calls[rows])
    ends = rows[np.minimum(starts + 1, len(rows) - 1)]
    same = (cpu[ends] == cpu[rows[starts]]) & (depth[ends] == depth[rows[starts]])
    same &= ends != rows[starts]
    last_of_cpu = np.searchsorted(cpu[order], cpu[rows[starts]], "right") - 1
    change = np.zeros(len(cpu) + 1, np.int64)
    np.add.at(change, place[rows[starts]], 1)
    np.add.at(change, np.where(same, place[ends], last_of_cpu) + 1, -1)
    inside = np.empty(len(cpu), np.bool_)
    inside[order] = np.cumsum(change)[:-1] > 0
    return inside & in_graph


def _matched(
    events: NDArray[np.void],
    depth: NDArray[np.int64],
    opens: NDArray[np.bool_],
    in_graph: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Mark the returns that directly follow their opening, among events of one CPU and depth."""
    matched = np.zeros(len(events), np.bool_)
    rows = np.flatnonzero(in_graph)
    level = events["cpu"][rows].astype(np.int64) * (FTRACE_RETFUNC_DEPTH + 1) + depth[rows]
    order = rows[np.argsort(level, kind="stable")]
    level = np.sort(level, kind="stable")
    right = (level[1:] == level[:-1]) & opens[order[:-1]]
    right &= events["ip"][order[1:]] == events["ip"][order[:-1]]
    matched[order[1:]] = right
    return matched
