"""Rows in the latency format: of a trace with that option, and of ftrace_dump().

They are short, with microseconds since a start, such as that of the section shown, and a mark if
the next event is late. Source: trace_print_lat_context() in kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..buffer.events import EventTable
from .columns import Column, Fields
from .columntexts import comm_of, flag_characters, overhead_mark, preempt_characters
from .defaultformat import DefaultFormatter
from .rowmap import RowMap, stack_rows
from .textcontext import TextContext
from .tracetext import TraceText

HEAD = "Dumping ftrace buffer:"
DASHES = "-" * 33
EMPTY = "   (ftrace buffer empty)"


def dump_text(table: EventTable, context: TextContext, time_start: int) -> TraceText:
    """Return the events of `table` as ftrace_dump() prints them into the kernel's log.

    Times count from `time_start`, a time of the trace clock in ns.
    """
    return _text(table, context, time_start, numbered=False)


def latency_text(table: EventTable, context: TextContext) -> TraceText:
    """Return the events of `table` in the latency format of `context`."""
    assert context.latency is not None
    return _text(table, context, context.latency.section.time_start, numbered=True)


def _text(table: EventTable, context: TextContext, start: int, *, numbered: bool) -> TraceText:
    rows = RowMap(len(table), *stack_rows(table, context.options))
    options = context.options
    functions = DefaultFormatter(table, context)
    if options.raw or options.hex or not options.context_info:
        return TraceText(rows, functions)
    return TraceText(rows, LatencyFormatter(functions, start, numbered))


class LatencyFormatter:
    """Formats events in the latency format; `functions` formats each event's own text."""

    def __init__(self, functions: DefaultFormatter, time_start: int, numbered: bool) -> None:
        """With `numbered`, the option verbose numbers the events; in a dump, each is number 1."""
        self.table = functions.table
        self.context = functions.context
        self.labels = functions.labels
        self.header = functions.header
        self.titles: Fields = ()
        self._functions = functions
        self._start = time_start
        self._numbered = numbered

    def texts(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[str]:
        """Return the text of n rows, given the event and the part of each."""
        own = events[parts == 0]
        names, rests = self._functions.own_texts(own)
        texts = iter(
            "".join([text for _, text in before]) + name + rest
            for before, name, rest in zip(self._before(own), names, rests, strict=True)
        )
        return [
            self._functions.caller(event, part - 1) if part else next(texts)
            for event, part in zip(events.tolist(), parts.tolist(), strict=True)
        ]

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of n rows, given the event and the part of each."""
        own = events[parts == 0]
        befores = iter(zip(own.tolist(), self._before(own), strict=True))
        found: list[Fields] = []
        for event, part in zip(events.tolist(), parts.tolist(), strict=True):
            if part:
                found.append(((Column.TEXT, self._functions.caller(event, part - 1)),))
            else:
                number, before = next(befores)
                found.append((*before, *self._functions.own_fields(number)))
        return found

    def _before(self, events: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of each event up to its own text."""
        table = self.table.events
        rows = table[events]
        columns = [rows[name].tolist() for name in ("pid", "cpu", "flags", "preempt")]
        following = np.minimum(events + 1, len(table) - 1)
        times, waits = rows["ts"].astype(np.int64), table["ts"][following].astype(np.int64)
        waits -= times
        return [
            (*self._head(event, *key), (Column.TIME, f"{self._time(ts, wait)}: "))
            for event, *key, ts, wait in zip(
                events.tolist(), *columns, times.tolist(), waits.tolist(), strict=True
            )
        ]

    def _head(self, event: int, pid: int, cpu: int, flags: int, preempt: int) -> Fields:
        comm = comm_of(pid, self.context.cmdlines)
        if self.context.options.verbose:
            # In a dump, the kernel's iterator starts anew for each event.
            number = event if self._numbered else 1
            rest = f"{flags} {preempt & 0xF:08x} {number:08x} "
            task, at = f"{comm:>16} {pid:7d} ", f"{cpu:3d} "
            return (Column.TASK, task), (Column.CPU, at), (Column.FLAGS, rest)
        characters = flag_characters(flags) + preempt_characters(preempt)
        task, at = f"{comm[:8]:>8}-{pid:<7d} ", f"{cpu:3d}"
        return (Column.TASK, task), (Column.CPU, at), (Column.FLAGS, characters)

    def _time(self, ts: int, wait: int) -> str:
        """Return the time since the start, with the mark for the wait until the next event."""
        since, verbose = ts - self._start, self.context.options.verbose
        if not self.context.clock_in_ns:
            return f"[{ts:016x}] {since} (+{wait})" if verbose else f" {since:4d}"
        if not verbose:
            return f" {since // 1000:4d}us{overhead_mark(wait // 1000 * 1000)}"
        (msec, usec), (later, rest) = (divmod(ns // 1000, 1000) for ns in (since, wait))
        return f"[{ts // 1000:08x}] {msec}.{usec:03d}ms (+{later}.{rest:03d}ms)"
