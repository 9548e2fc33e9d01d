"""Rows of the function graph: nested calls, each with its duration.

Source: kernel/trace/trace_functions_graph.c, 6.1, and 6.5 for return values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...abi import MAX_ERRNO, TraceType
from ..buffer.events import EventTable
from .columns import Column, Fields, joined
from .columntexts import comm_of, overhead_mark
from .defaultformat import DefaultFormatter
from .graphrows import ARROW_IN, ARROW_OUT, DASHES, OWN, STACK, TASKS, GraphRows
from .header import header
from .rowmap import stack_rows
from .textcontext import TextContext
from .tracetext import TraceText

INDENT = 2
"""Cells for each level (`TRACE_GRAPH_INDENT`)."""

PROC_LENGTH = 14
"""Cells of a task's name and pid (`TRACE_GRAPH_PROCINFO_LENGTH`)."""

_BOX = " " + "-" * 42
_NO_TIME = "              |  "
_ARROWS = {ARROW_IN: "  ==========> |", ARROW_OUT: "  <========== |"}


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
    """Return the two comment lines that name the columns."""
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
    """Return a time in microseconds, with at most seven digits, as wide as its column."""
    whole, rest = divmod(ns, 1000)
    text = f"{whole}"
    if len(text) < 7:
        text += "." + f"{rest:03d}"[: 7 - len(text)]
    return f"{text} us " + " " * (8 - len(text))


def retval_text(value: int, bits: int, as_hex: bool) -> str:
    """Return a function's return value: a negative errno in decimal, anything else in hex."""
    error = value
    if bits == 64 and value >> 31 == 1:
        error = value | 0xFFFF_FFFF_0000_0000
    if as_hex or error < (1 << bits) - MAX_ERRNO:
        return f"0x{value:x}"
    return f"{error - (1 << bits)}"


def graph_text(
    table: EventTable,
    context: TextContext,
    options: GraphOptions | None = None,
    irq_text: range = range(0),
) -> TraceText:
    """Return the events of `table` as the graph tracer prints them.

    `irq_text` is the address range of interrupt entry points (`__irqentry_text_start`).
    """
    options = options or GraphOptions()
    rows = GraphRows(table, stack_rows(table, context.options), irq_text, options.irqs)
    return TraceText(rows, GraphFormatter(table, rows, context, options))


class GraphFormatter:
    """Formats calls and returns as a tree, and other events as comments in it."""

    def __init__(
        self, table: EventTable, rows: GraphRows, context: TextContext, options: GraphOptions
    ) -> None:
        self.table = table
        self.context = context
        self.rows = rows
        self.titles: Fields = ()
        self._options = options
        self._functions = DefaultFormatter(table, context)
        self.labels = self._functions.labels
        self._timed = options.duration and context.options.context_info
        self._no_time: Fields = ((Column.DURATION, _NO_TIME),) if self._timed else ()
        self._cpu_width = len(str(max(context.cpus - 1, 0)))
        self._prologues: dict[tuple[int, int], Fields] = {}

    @property
    def header(self) -> list[str]:
        """The comment lines above the events."""
        lines = [f"# tracer: {self.context.tracer}", "#"]
        if self.context.ftrace_dead:
            lines += header(self.context)[2:4]
        return lines + (graph_header(self._options) if self.context.options.context_info else [])

    def texts(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[str]:
        """Return the text of n rows, given the event and the part of each."""
        return [joined(fields) for fields in self.fields(events, parts)]

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of n rows, given the event and the part of each."""
        return [
            self._own(event) if part == OWN else self._beside(event, part)
            for event, part in zip(self._events(events), parts.tolist(), strict=True)
        ]

    def folded(self, event: int, hides: int, end: int) -> Fields:
        """Return the fields of the folded call that `event` opens.

        It hides `hides` rows and returns in event `end`, -1 if the buffer has no return.
        """
        (opening,) = self._events(np.array([event]))
        count = f"… {hides} row" + ("" if hides == 1 else "s")
        call = self._call(opening, "() { ")
        if end < 0:
            fold = (Column.FOLD, f"{count}, its return is not here")
            return (*self._prologue(opening), *self._no_time, *call, fold)
        head = (*self._prologue(opening), *self._duration(int(self.table.events["parent"][end])))
        return (*head, *call, (Column.FOLD, count), (Column.TEXT, " }"))

    def _events(self, events: NDArray[np.intp]) -> Sequence[_Event]:
        """Return the columns of n events as plain numbers, which read faster than numpy's."""
        rows, table = self.rows, self.table.events[events]
        columns = [table[name].tolist() for name in ("type", "ip", "parent", "pid", "cpu", "ts")]
        shape = [column[events].tolist() for column in (rows.depth, rows.leaf)]
        returns = self.table.events["parent"][rows.return_of[events]].tolist()
        return list(map(_Event, events.tolist(), *columns, *shape, returns))

    def _own(self, event: _Event) -> Fields:
        """Return the fields of an event's own row."""
        if event.kind == TraceType.GRAPH_ENT:
            if not event.leaf:
                return (*self._prologue(event), *self._no_time, *self._call(event, "() {"))
            value = self._value(event.returned)
            call = self._call(event, f"(); /* {value} */" if value else "();")
            return (*self._prologue(event), *self._duration(event.returned), *call)
        if event.kind == TraceType.GRAPH_RET:
            return self._closing(event)
        if event.kind == TraceType.FN:
            (fields,) = self._functions.fields(np.array([event.number]), np.zeros(1, np.intp))
            return fields
        return (*self._prologue(event), *self._no_time, *self._comment(event))

    def _call(self, event: _Event, rest: str) -> Fields:
        """Return the fields of a function's name at its depth, and what follows it."""
        return (
            (Column.TEXT, " " * (INDENT * event.depth)),
            (Column.FUNCTION, self.labels.names[event.ip]),
            (Column.TEXT, rest),
        )

    def _closing(self, event: _Event) -> Fields:
        """Return the fields of the row that closes a call."""
        row = event.returned
        value, text = self._value(row), " " * (INDENT * event.depth) + "}"
        if value or self._options.tail or not self.rows.matched[event.number]:
            name = self.labels.names[event.ip]
            text += f" /* {name}{' ' if value else ''}{value} */"
        if self._options.overrun:
            text += f" (Overruns: {int(self.table.details.returns['overrun'][row])})"
        return (*self._prologue(event), *self._duration(row), (Column.TEXT, text))

    def _comment(self, event: _Event) -> Fields:
        """Return the fields of any other event, at the level of the functions around it."""
        level = int(self.rows.level[event.number])
        space = " " * (INDENT * level) if level > 1 else ""  # the kernel's own condition
        what: Fields
        message = self._functions.message(event.kind, event.parent)
        if message is not None:
            what = ((Column.TEXT, message),)
        else:
            what = tuple(self._functions.own_fields(event.number))
        end = self._end_of(event, 0)
        return ((Column.TEXT, f"{space}/* "), *what, (Column.TEXT, end))

    def _end_of(self, event: _Event, number: int) -> str:
        """Return the end of a comment; a stack trace's comment ends after its last row."""
        options = self.context.options
        if event.kind != TraceType.STACK or options.raw or options.hex:
            return " */"
        return " */" if number == self.table.details.stacks.lengths[event.parent] else ""

    def _beside(self, event: _Event, part: int) -> Fields:
        """Return the fields of a row of an event other than its own."""
        if part >= STACK:
            caller = self._functions.caller(event.number, part - STACK)
            return ((Column.TEXT, caller + self._end_of(event, part - STACK + 1)),)
        if part in _ARROWS:
            arrow = _ARROWS[part] if self._timed else _ARROWS[part].strip(" |")
            return (*self._prologue(event), (Column.TEXT, arrow))
        if part == TASKS:
            return (
                (Column.CPU, self._cpu(event.cpu)),
                (Column.TASK, self._proc(self.rows.switched_from[event.number])),
                (Column.TEXT, " => "),
                (Column.TASK, self._proc(event.pid)),
            )
        return ((Column.TEXT, _BOX),) if part in DASHES else ()

    def _prologue(self, event: _Event) -> Fields:
        """Return the fields before the duration."""
        if not self.context.options.context_info:
            return ()
        known = self._prologues.get((event.cpu, event.pid))
        if known is None:
            known = ()
            if self._options.cpu:
                known += ((Column.CPU, self._cpu(event.cpu)),)
            if self._options.proc:
                known += ((Column.TASK, f"{self._proc(event.pid)} | "),)
            self._prologues[event.cpu, event.pid] = known
        if self._options.abstime:
            seconds, rest = divmod(event.ts, 1_000_000_000)
            return ((Column.TIME, f"{seconds:5d}.{rest // 1000:06d} |  "), *known)
        return known

    @cached_property
    def _took(self) -> list[int]:
        """Duration in ns of each row of the returns; 0 if the clock went back."""
        calls, ends = (self.table.details.returns[name] for name in ("calltime", "rettime"))
        took: list[int] = (np.maximum(calls, ends) - calls).tolist()
        return took

    def _duration(self, row: int) -> Fields:
        """Return the column of the duration of row `row` of the returns."""
        if not self._timed:
            return ()
        ns = self._took[row]
        sign = overhead_mark(ns) if self._options.overhead else " "
        return ((Column.OVERHEAD, sign), (Column.DURATION, f" {duration_text(ns)}|  "))

    def _value(self, row: int) -> str:
        """Return the return value of row `row` of the returns; "" unless it is shown."""
        if not self._options.retval:
            return ""
        value = int(self.table.details.returns["retval"][row])
        return retval_text(value, 8 * self.context.pointer_size, self._options.retval_hex)

    def _cpu(self, cpu: int) -> str:
        return f" {cpu:{self._cpu_width}d}) "

    def _proc(self, pid: int) -> str:
        """Return name and pid, centred in their column."""
        text = f"{comm_of(pid, self.context.cmdlines)[:7]}-{pid}"
        spaces = max(PROC_LENGTH - len(text), 0)
        return " " * (spaces // 2) + text + " " * (spaces - spaces // 2)


class _Event(NamedTuple):
    """An event's columns, and its shape in the tree."""

    number: int
    kind: int
    ip: int
    parent: int
    pid: int
    cpu: int
    ts: int
    depth: int
    leaf: bool
    returned: int
    """Row of the returns whose duration the event's own row shows."""
