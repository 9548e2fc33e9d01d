"""The text of the function graph: calls in each other, each with the time it took.

A function that calls none that is told is one line, any other two, an opening
and a closing one; where a CPU went on with another task stands a box, and around
the functions of an interrupt arrows. What a line says depends on the events around
it on its CPU: found for all events at once, when the table is taken. Source:
kernel/trace/trace_functions_graph.c, 6.1, and 6.5 for return values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..abi import FTRACE_RETFUNC_DEPTH, TraceType
from .calls import Calls
from .events import EventTable
from .rowfilter import RowFilter
from .search import find_line
from .selection import Folded, Folds, Selection, select_graph
from .textcontext import TextContext
from .tracefields import comm_of
from .tracetext import TraceText

INDENT = 2
"""Cells for each level (`TRACE_GRAPH_INDENT`)."""

PROC_LENGTH = 14
"""Cells of a task's name and pid (`TRACE_GRAPH_PROCINFO_LENGTH`)."""

_MARKS = (
    (1_000_000_000, "$"),
    (100_000_000, "@"),
    (10_000_000, "*"),
    (1_000_000, "#"),
    (100_000, "!"),
    (10_000, "+"),
)
"""Durations beyond so many ns, and how they are marked."""

_DASHES = " " + "-" * 42
_TASKS, _IN, _OWN, _OUT = 1, 4, 5, 6
_PARTS = 7
"""Lines an event may have: dashes, the tasks of a switch, dashes, an empty one, the arrow
into an interrupt, its own, the arrow out. From here on: those of a stack's addresses."""

_NO_TIME = "              |  "
_ARROWS = {_IN: "  ==========> |", _OUT: "  <========== |"}


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The funcgraph options, with the kernel's defaults."""

    overrun: bool = False
    cpu: bool = True
    overhead: bool = True
    proc: bool = False
    duration: bool = True
    abstime: bool = False
    irqs: bool = True
    tail: bool = False
    retval: bool = False
    retval_hex: bool = False


def graph_header(options: GraphOptions) -> list[str]:
    """The two lines that name the columns."""
    columns = (
        (options.abstime, "     TIME       ", "      |         "),
        (options.cpu, " CPU", " |  "),
        (options.proc, "  TASK/PID       ", "   |    |        "),
        (options.duration, "  DURATION   ", "   |   |      "),
    )
    names = "".join(name for shown, name, _ in columns if shown)
    bars = "".join(bar for shown, _, bar in columns if shown)
    return [f"#{names}               FUNCTION CALLS", f"#{bars}               |   |   |   |"]


def duration_text(ns: int) -> str:
    """A time in microseconds, at most seven digits, in a column of its own."""
    whole, rest = divmod(ns, 1000)
    text = f"{whole}"
    if len(text) < 7:
        text += "." + f"{rest:03d}"[: 7 - len(text)]
    return f"{text} us " + " " * (8 - len(text))


def mark(ns: int) -> str:
    """The character before a duration that stands out."""
    return next((sign for least, sign in _MARKS if ns > least), " ")


def retval_text(value: int, bits: int, as_hex: bool) -> str:
    """A return value: a negative errno as a number, anything else in hex."""
    error = value
    if bits == 64 and value >> 31 == 1:
        error = value | 0xFFFF_FFFF_0000_0000
    if as_hex or error < (1 << bits) - 4095:
        return f"0x{value:x}"
    return f"{error - (1 << bits)}"


class GraphText(TraceText):
    """The lines of a table of events in which calls and returns are told.

    A row is a line: `rows` says of which event it is, and `parts` which of its
    lines. `irq_text` is where the functions lie by which interrupts come in.
    """

    CALLS = (TraceType.FN, TraceType.GRAPH_ENT)

    def __init__(
        self,
        table: EventTable,
        context: TextContext,
        graph: GraphOptions | None = None,
        irq_text: range = range(0),
    ) -> None:
        super().__init__(table, context)
        self._graph = graph or GraphOptions()
        self._cpu_width = len(str(max(context.cpus - 1, 0)))
        events = table.events
        kind = events["type"]
        entry, returned = kind == TraceType.GRAPH_ENT, kind == TraceType.GRAPH_RET
        before, behind = _neighbours(events["cpu"])
        leaf = entry & (behind >= 0)
        for name in ("pid", "ip"):
            leaf &= events[name][behind] == events[name]
        leaf &= returned[behind]
        self._leaf = leaf
        consumed = returned & (before >= 0) & leaf[before]
        self._return_of = np.where(leaf, behind, np.arange(len(events)))
        depth = np.where(entry, events["parent"], 0).astype(np.int64)
        if len(table.details.returns):
            depth[returned] = table.details.returns["depth"][events["parent"][returned]]
        self._depth = np.minimum(depth, FTRACE_RETFUNC_DEPTH)
        self.opens = opens = entry & ~leaf
        """Which events open a call that is two lines."""
        self._told = entry | returned
        self._matched = _matched(events, self._depth, opens, entry | returned)
        self._level = _levels(events["cpu"], entry | returned, self._depth + opens)
        of_irq = np.zeros(len(events), np.bool_)
        hidden = of_irq
        if irq_text:
            inside = (table.addresses >= irq_text.start) & (table.addresses < irq_text.stop)
            of_irq = (entry | returned) & inside[events["ip"]]
            if not self._graph.irqs:
                hidden = _from_to(events["cpu"], self._depth, of_irq & entry, entry | returned)
        shown = np.flatnonzero(~(consumed | hidden))
        previous, _ = _neighbours(events["cpu"][shown])
        pid = events["pid"][shown]
        switched = (previous >= 0) & (pid[previous] != pid)
        self._from = dict(
            zip(shown[switched].tolist(), pid[previous[switched]].tolist(), strict=True)
        )
        lines = np.zeros((len(shown), _PARTS), np.bool_)
        lines[:, :_IN] = switched[:, None]
        lines[:, _IN] = (of_irq & entry)[shown]
        lines[:, _OWN] = True
        lines[:, _OUT] = (of_irq & ~opens)[shown]
        at, parts = np.nonzero(lines)
        stacked, extra = self._stacks()
        count = np.ones(len(at), np.intp)
        count[(parts == _OWN) & np.isin(shown[at], stacked)] += extra
        at, starts = np.repeat(at, count), np.repeat(np.cumsum(count) - count, count)
        caller = np.arange(len(at)) - starts
        self.rows: NDArray[np.intp] = shown[at]
        self.parts = np.where(caller, _PARTS + caller - 1, np.repeat(parts, count))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def header(self) -> list[str]:
        """The comment lines over the events."""
        lines = [f"# tracer: {self.context.tracer}", "#"]
        if self.context.ftrace_dead:
            lines += super().header[2:4]
        return lines + (graph_header(self._graph) if self.context.options.context_info else [])

    def site(self, row: int) -> int | None:
        """rec.ip of the function whose call or return is in `row`."""
        event = self.table.events[self.rows[row]]
        if self.parts[row] != _OWN or event["type"] not in (
            TraceType.FN,
            TraceType.GRAPH_ENT,
            TraceType.GRAPH_RET,
        ):
            return None
        return int(self.table.addresses[int(event["ip"])])

    def _events_of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        return self.rows[rows], self.parts[rows] == _OWN

    def find(
        self, needle: str, start: int, step: int, among: NDArray[np.intp] | None = None
    ) -> int | None:
        """As for events; it may lie in any field."""
        return find_line(self, needle, start, step, among)

    def _lines_at(self, rows: NDArray[np.intp]) -> list[str]:
        return [
            self._line(row) if part == _OWN else self._beside(row, part)
            for row, part in zip(self.rows[rows].tolist(), self.parts[rows].tolist(), strict=True)
        ]

    # Calls that a view folds

    @cached_property
    def calls(self) -> Calls:
        """Which events lie in which call."""
        return Calls(self.table.events, self._depth, self.opens, self._told)

    @cached_property
    def boxed(self) -> NDArray[np.bool_]:
        """Which rows are of a box around a switch of tasks."""
        boxed: NDArray[np.bool_] = self.parts < _IN
        return boxed

    @cached_property
    def arrows(self) -> NDArray[np.bool_]:
        """Which rows are the arrow into an interrupt."""
        arrows: NDArray[np.bool_] = self.parts == _IN
        return arrows

    def own_rows(self, events: NDArray[np.intp]) -> NDArray[np.intp]:
        """The row of each event's own line, -1 where it is not shown."""
        own = np.flatnonzero(self.parts == _OWN)
        at = np.searchsorted(self.rows[own], events)
        rows = own[np.minimum(at, len(own) - 1)] if len(own) else np.full(len(events), -1)
        return np.where(self.rows[rows] == events, rows, -1) if len(own) else rows

    def _part_of(self, row: int) -> int:
        return int(self.parts[row])

    def _row_at(self, event: int, part: int) -> int | None:
        """The row of a line of `event`, its own one where there is no such."""
        low, high = np.searchsorted(self.rows, [event, event + 1])
        rows = np.arange(low, high)
        for wanted in (part, _OWN):
            found = rows[self.parts[low:high] == wanted]
            if len(found):
                return int(found[0])
        return None

    def select(self, only: RowFilter | None, folds: Folds | None = None) -> Selection:
        """The rows whose events `only` shows, each call of `folds` as one."""
        return select_graph(self, self.mask(only), folds or Folds())

    def fold(
        self, folds: Folds | None, row: int, only: RowFilter | None = None
    ) -> tuple[Folds, int] | None:
        """`folds` with the innermost call of `row` that is shown, or without it, and its row."""
        if self.boxed[row]:
            # A box is of its CPU: what it stands above may lie in a call that is folded.
            return None
        opening = self.calls.opening(self.event_of(row))
        shown = self._shown_openings(only)
        while opening is not None and not shown[opening]:
            opening = self.calls.caller(opening)
        if opening is None:
            return None
        events = np.array([opening])
        own = int(self.own_rows(events)[0])
        return (folds or Folds()).toggled(self.places.keys(events)[0]), own

    def fold_all(self, only: RowFilter | None = None) -> Folds:
        """The outermost calls of those whose opening `only` shows."""
        return Folds(self.places.keys(self.calls.outermost(self._shown_openings(only))))

    def _shown_openings(self, only: RowFilter | None) -> NDArray[np.bool_]:
        """Which events open a call with a line that `only` shows."""
        shown = np.zeros(len(self.table), np.bool_)
        shown[self.rows[self.parts == _OWN]] = True
        shown &= self.opens
        mask = self.mask(only)
        return shown if mask is None else shown & mask

    def folded_line(self, row: int, folded: Folded) -> str:
        """The line of the folded call that opens in `row`, with its duration."""
        event = self.table.events[self.rows[row]]
        rows = f"… {folded.hides} row" + ("" if folded.hides == 1 else "s")
        head = self._prologue(event)
        space = " " * (INDENT * int(self._depth[self.rows[row]]))
        call = f"{space}{self.names[event['ip']]}() {{ {rows}"
        if folded.end < 0:
            return f"{head}{self._filled()}{call}, its return is not here"
        return f"{head}{self._duration(self._taken(folded.end))}{call} }}"

    def row_of(self, event: int) -> int:
        """The row of event `event` of the table, its first."""
        return int(np.searchsorted(self.rows, event))

    def event_of(self, row: int) -> int:
        """The event that `row` is a line of."""
        return int(self.rows[row])

    def _beside(self, row: int, part: int) -> str:
        """A line of an event other than its own."""
        event = self.table.events[row]
        if part >= _PARTS:
            return self._caller(row, part - _PARTS) + self._end_of(row, part - _PARTS + 1)
        if part in _ARROWS:
            arrow = _ARROWS[part] if self._timed else _ARROWS[part].strip(" |")
            return f"{self._prologue(event)}{arrow}"
        if part == _TASKS:
            old, new = self._from[row], int(event["pid"])
            return f"{self._cpu(int(event['cpu']))}{self._proc(old)} => {self._proc(new)}"
        return "" if part == _IN - 1 else _DASHES

    def _line(self, row: int) -> str:
        event = self.table.events[row]
        kind = int(event["type"])
        if kind == TraceType.FN:
            return self._event_lines(self.table.events[row : row + 1])[0]
        head = self._prologue(event)
        if kind not in (TraceType.GRAPH_ENT, TraceType.GRAPH_RET):
            return f"{head}{self._filled()}{self._comment(row)}"
        depth = int(self._depth[row])
        name = self.names[event["ip"]]
        space = " " * (INDENT * depth)
        if kind == TraceType.GRAPH_ENT and not self._leaf[row]:
            return f"{head}{self._filled()}{space}{name}() {{"
        end = int(self._return_of[row])
        told = self.table.details.returns[self.table.events[end]["parent"]]
        head += self._duration(self._taken(end))
        value = ""
        if self._graph.retval:
            bits = 8 * self.context.pointer_size
            value = retval_text(int(told["retval"]), bits, self._graph.retval_hex)
        if kind == TraceType.GRAPH_ENT:
            return f"{head}{space}{name}();" + (f" /* {value} */" if value else "")
        line = f"{head}{space}}}"
        if value or self._graph.tail or not self._matched[row]:
            line += f" /* {name}{' ' if value else ''}{value} */"
        if self._graph.overrun:
            line += f" (Overruns: {int(told['overrun'])})"
        return line

    def _taken(self, event: int) -> int:
        """How many ns the function took that returns in `event`."""
        told = self.table.details.returns[self.table.events[event]["parent"]]
        return max(int(told["rettime"]) - int(told["calltime"]), 0)

    def _prologue(self, event: np.void) -> str:
        """What stands before the duration."""
        if not self.context.options.context_info:
            return ""
        head = ""
        if self._graph.abstime:
            seconds, rest = divmod(int(event["ts"]), 1_000_000_000)
            head += f"{seconds:5d}.{rest // 1000:06d} |  "
        if self._graph.cpu:
            head += self._cpu(int(event["cpu"]))
        if self._graph.proc:
            head += f"{self._proc(int(event['pid']))} | "
        return head

    @property
    def _timed(self) -> bool:
        return self._graph.duration and self.context.options.context_info

    def _filled(self) -> str:
        """The column of durations, empty."""
        return _NO_TIME if self._timed else ""

    def _duration(self, ns: int) -> str:
        if not self._timed:
            return ""
        sign = mark(ns) if self._graph.overhead else " "
        return f"{sign} {duration_text(ns)}|  "

    def _cpu(self, cpu: int) -> str:
        return f" {cpu:{self._cpu_width}d}) "

    def _proc(self, pid: int) -> str:
        """Name and pid in the middle of their column."""
        text = f"{comm_of(pid, self.context.cmdlines)[:7]}-{pid}"
        spaces = max(PROC_LENGTH - len(text), 0)
        return " " * (spaces // 2) + text + " " * (spaces - spaces // 2)

    def _comment(self, row: int) -> str:
        """Any other event, at the level of the functions around it."""
        events = self.table.events
        level = int(self._level[row])
        space = " " * (INDENT * level) if level > 1 else ""  # the kernel's own condition
        if events["type"][row] == TraceType.PRINT:
            what = self.texts[events["parent"][row]]
        else:
            what = self._whats(events[row : row + 1])[0]
        return f"{space}/* {what}{self._end_of(row, 0)}"

    def _end_of(self, row: int, number: int) -> str:
        """What closes a comment, of a stack behind its last line, behind any other's only one."""
        options = self.context.options
        if self.table.events["type"][row] != TraceType.STACK or options.raw or options.hex:
            return " */"
        stacks = self.table.details.stacks
        last = stacks.lengths[self.table.events["parent"][row]]
        return " */" if number == last else ""


def _neighbours(cpu: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The row before and behind each on its CPU, -1 for none."""
    order = np.argsort(cpu, kind="stable")
    same = cpu[order][1:] == cpu[order][:-1]
    before, behind = (np.full(len(cpu), -1, np.intp) for _ in range(2))
    before[order[1:][same]] = order[:-1][same]
    behind[order[:-1][same]] = order[1:][same]
    return before, behind


def _levels(
    cpu: NDArray[np.uint8], told: NDArray[np.bool_], behind: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The level at each row: what is `behind` the last row before it on its CPU that is `told`."""
    order = np.argsort(cpu, kind="stable")
    place = np.where(told[order], np.arange(len(cpu)), -1)
    last = np.maximum.accumulate(place) if len(cpu) else place
    same = (last >= 0) & (cpu[order][last] == cpu[order])
    levels = np.zeros(len(cpu), np.int64)
    levels[order] = np.where(same, behind[order][last], 0)
    return levels


def _from_to(
    cpu: NDArray[np.uint8],
    depth: NDArray[np.int64],
    calls: NDArray[np.bool_],
    told: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which calls and returns, `told`, lie between one of `calls` and its return on its CPU."""
    order = np.argsort(cpu, kind="stable")
    place = np.empty(len(cpu), np.intp)
    place[order] = np.arange(len(cpu))
    rows = np.flatnonzero(told)
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
    return inside & told


def _matched(
    events: NDArray[np.void],
    depth: NDArray[np.int64],
    opens: NDArray[np.bool_],
    told: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which returns come right behind their opening line, of those of one CPU and depth."""
    matched = np.zeros(len(events), np.bool_)
    rows = np.flatnonzero(told)
    level = events["cpu"][rows].astype(np.int64) * (FTRACE_RETFUNC_DEPTH + 1) + depth[rows]
    order = rows[np.argsort(level, kind="stable")]
    level = np.sort(level, kind="stable")
    right = (level[1:] == level[:-1]) & opens[order[:-1]]
    right &= events["ip"][order[1:]] == events["ip"][order[:-1]]
    matched[order[1:]] = right
    return matched
