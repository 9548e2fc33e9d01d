"""CPU lanes: for each CPU, the tasks it ran and its events over virtual time.

Everything comes from the trace. A task runs from its first event to the next task's; a
`sched_switch` (TRACE_CTX) ends it exactly. Events are counted in bins, one for each cell of the
picture, with array operations: a million events take some milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..abi import TraceFlag, TraceType
from ..distinct import distinct
from ..ftrace.patch import Performed
from ..ftrace.phases import STOPPING, Act
from ..trace.text.columntexts import comm_of
from ..trace.text.tracetext import TraceText
from .drawing import Bar, Drawing, Row, Section

BINS = 400
"""Number of bins of a picture without a given width, such as an SVG file."""

_TONES = ("link", "good", "accent", "strong")
"""Tones of tasks, by pid."""

_DENSE = (1, 4, 16)
"""Numbers of events in a cell at which it is drawn with the next sign."""

_RANKS = {**dict.fromkeys(STOPPING, 0), Act.SYNC: 1}
"""Rank of a phase's importance; phases without an entry are the most important."""

_SIGNS = (" ", ".", ":", "|")


@dataclass(frozen=True, slots=True, eq=False)
class _Lane:
    """The events of one CPU; all arrays have shape (n,)."""

    cpu: int
    times: NDArray[np.int64]
    task: NDArray[np.int32]
    """pid of the task that runs after each event."""
    flags: NDArray[np.uint8]


class Lanes:
    """The lanes of one trace."""

    def __init__(self, text: TraceText, patches: Sequence[Performed] = ()) -> None:
        """`patches` are phases of changes of text, which become marks."""
        events = text.table.events
        self._patches = sorted(patches, key=lambda each: (each.ns, not each.safe))
        self._known = text.context.cmdlines
        self._lanes: list[_Lane] = []
        for cpu in distinct(events["cpu"]).tolist():
            own = events[events["cpu"] == cpu]
            task = own["pid"].astype(np.int32)
            # The event after a switch shows which task runs.
            switched = np.flatnonzero(own["type"][:-1] == TraceType.CTX)
            task[switched] = task[switched + 1]
            times = np.maximum.accumulate(own["ts"].astype(np.int64))
            self._lanes.append(_Lane(cpu, times, task, own["flags"].copy()))

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the lanes in virtual ns; (0, 1) without events.

        From the first event, or a change of text shortly before it, to just after the last event.
        """
        if not self._lanes:
            return 0, 1
        first = min(int(lane.times[0]) for lane in self._lanes)
        last = max(int(lane.times[-1]) for lane in self._lanes)
        # The change that switched the tracer on is before the first event.
        early = first - (last - first) // 10
        first = min([first, *(each.ns for each in self._patches if each.ns >= early)])
        return first, last + 1

    def beyond(self, time: int, step: int) -> int | None:
        """Return the time of the next event after `time`, or before it if `step` is negative.

        A phase of a change of text counts as an event.
        """
        first, end = self.span
        times = [each.ns for each in self._patches if first <= each.ns < end]
        found = [ns for ns in times if (ns > time if step > 0 else ns < time)]
        for lane in self._lanes:
            at = int(np.searchsorted(lane.times, time, "right" if step > 0 else "left"))
            at = at if step > 0 else at - 1
            if 0 <= at < len(lane.times):
                found.append(int(lane.times[at]))
        return (min if step > 0 else max)(found, default=None)

    def drawing(self, start: int, end: int, bins: int = BINS, cursor: int | None = None) -> Drawing:
        """Return the picture from `start` to `end` (virtual ns), in `bins` bins."""
        end = max(end, start + 1)
        edges = start + np.arange(bins + 1, dtype=np.int64) * (end - start) // bins
        rows: list[Row] = []
        for lane in self._lanes:
            rows += self._rows(lane, edges)
        marks = [each for each in self._patches if start <= each.ns < end]
        if marks:
            # More important marks are drawn later, so they show where several share a cell.
            marks.sort(key=lambda each: (not each.safe, _RANKS.get(each.act, len(_RANKS))))
            bars = (_mark(each, (each.ns - start) / (end - start)) for each in marks)
            most = f"{len(marks)} phase{'' if len(marks) == 1 else 's'}"
            rows.append(Row("patch", tuple(bars), most))
        if cursor is not None and start <= cursor < end:
            at = (cursor - start) / (end - start)
            rows.append(Row("cursor", (Bar(at, at, "^", "bad"),), f"{cursor:,} ns"))
        title = "CPU lanes  . : | events, h interrupt, Z NMI"
        title += "; M stop, S sync, W write, ! unsafe" if marks else ""
        section = Section("", tuple(rows), f"{start:,} ns", f"{end:,} ns")
        return Drawing(title if rows else "CPU lanes: the trace is empty", (section,))

    def _rows(self, lane: _Lane, edges: NDArray[np.int64]) -> list[Row]:
        at = np.searchsorted(lane.times, edges)
        counts = np.diff(at)
        last = at[1:] - 1  # the last event up to the end of each bin
        tasks = np.where(last >= 0, lane.task[np.maximum(last, 0)], -1)
        flags = np.zeros(len(counts), np.uint8)
        full = np.flatnonzero(counts)
        if len(full):
            inside = lane.flags[: at[-1]]
            flags[full] = np.bitwise_or.reduceat(inside, at[:-1][full])
        kind = np.digitize(counts, _DENSE).astype(np.int64)
        kind[(flags & TraceFlag.HARDIRQ) > 0] = len(_SIGNS)
        kind[(flags & TraceFlag.NMI) > 0] = len(_SIGNS) + 1
        total = int(counts.sum())
        return [
            Row(f"CPU {lane.cpu}", tuple(self._tasks(tasks)), f"{total:,} events"),
            Row("", tuple(_ticks(kind))),
        ]

    def _tasks(self, tasks: NDArray[np.int32]) -> list[Bar]:
        bars = []
        for start, end, pid in _runs(tasks):
            if pid < 0:
                continue
            name = f"{comm_of(pid, self._known)}-{pid}" if pid else ""
            tone = _TONES[pid % len(_TONES)] if pid else "dim"
            bars.append(Bar(start, end, "=" if pid else "-", tone, name))
        return bars


def _mark(phase: Performed, at: float) -> Bar:
    """Return the mark of a phase."""
    if not phase.safe:
        return Bar(at, at, "!", "bad")
    if phase.act in STOPPING:
        return Bar(at, at, "M", "link")
    return Bar(at, at, "S", "link") if phase.act is Act.SYNC else Bar(at, at, "W", "mark")


def _ticks(kinds: NDArray[np.int64]) -> list[Bar]:
    """Return the marks of the events in each bin."""
    known = [(sign, "") for sign in _SIGNS] + [("h", "accent"), ("Z", "bad")]
    return [Bar(start, end, *known[kind]) for start, end, kind in _runs(kinds) if kind]


def _runs(values: NDArray[np.int64] | NDArray[np.int32]) -> list[tuple[float, float, int]]:
    """Return the runs of equal values: start and end as fractions, and the value."""
    if not len(values):
        return []
    cuts = np.flatnonzero(np.diff(values)) + 1
    starts = np.concatenate([[0], cuts])
    ends = np.concatenate([cuts, [len(values)]])
    size = len(values)
    return [
        (start / size, end / size, int(values[start]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
