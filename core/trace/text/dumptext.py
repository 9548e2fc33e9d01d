"""Rows of a dump: the events as ftrace_dump() prints them into the kernel's log.

The rows have the latency format: short, with microseconds since the buffers were cleared,
and a mark if the next event comes late. Source: trace_print_lat_context() in
kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..buffer.events import EventTable
from .eventtext import FunctionFormatter
from .fieldkinds import FieldKind, Fields
from .fieldtexts import comm_of, flag_characters, overhead_mark, preempt_characters
from .rowmap import RowMap, stack_rows
from .textcontext import TextContext
from .tracetext import TraceText

HEAD = "Dumping ftrace buffer:"
DASHES = "-" * 33
EMPTY = "   (ftrace buffer empty)"


def dump_text(table: EventTable, context: TextContext, time_start: int) -> TraceText:
    """Return the events of `table` in the latency format.

    Times count from `time_start`, a time of the trace clock in ns.
    """
    rows = RowMap(len(table), *stack_rows(table, context.options))
    options = context.options
    functions = FunctionFormatter(table, context)
    if options.raw or options.hex or not options.context_info:
        return TraceText(rows, functions)
    return TraceText(rows, DumpFormatter(functions, time_start))


class DumpFormatter:
    """Formats events in the latency format; `functions` formats each event's own text."""

    def __init__(self, functions: FunctionFormatter, time_start: int) -> None:
        self.table = functions.table
        self.context = functions.context
        self.labels = functions.labels
        self.header = functions.header
        self._functions = functions
        self._start = time_start

    def texts(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[str]:
        """Return the text of n rows, given the event and the part of each."""
        own = events[parts == 0]
        names, rests = self._functions.own_texts(own)
        texts = iter(
            f"{head}{time}{name}{rest}"
            for (head, time), name, rest in zip(self._before(own), names, rests, strict=True)
        )
        return [
            self._functions.caller(event, part - 1) if part else next(texts)
            for event, part in zip(events.tolist(), parts.tolist(), strict=True)
        ]

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the text of n rows as one field each: a dump is not shown in a list."""
        return [((FieldKind.TEXT, text),) for text in self.texts(events, parts)]

    def _before(self, events: NDArray[np.intp]) -> list[tuple[str, str]]:
        """Return, for each event, what precedes the time, and the time with its separator."""
        table = self.table.events
        rows = table[events]
        columns = [rows[name].tolist() for name in ("pid", "cpu", "flags", "preempt")]
        following = np.minimum(events + 1, len(table) - 1)
        times, waits = rows["ts"].astype(np.int64), table["ts"][following].astype(np.int64)
        waits -= times
        return [
            (self._head(*key), f"{self._time(ts, wait)}: ")
            for *key, ts, wait in zip(*columns, times.tolist(), waits.tolist(), strict=True)
        ]

    def _head(self, pid: int, cpu: int, flags: int, preempt: int) -> str:
        comm = comm_of(pid, self.context.cmdlines)
        if self.context.options.verbose:
            # The kernel's iterator starts anew for each event, so it numbers each one 1.
            return f"{comm:>16} {pid:7d} {cpu:3d} {flags} {preempt & 0xF:08x} {1:08x} "
        characters = flag_characters(flags) + preempt_characters(preempt)
        return f"{comm[:8]:>8}-{pid:<7d} {cpu:3d}{characters}"

    def _time(self, ts: int, wait: int) -> str:
        """Return the time since the start, and how long the next event takes to come."""
        since, verbose = ts - self._start, self.context.options.verbose
        if not self.context.clock_in_ns:
            return f"[{ts:016x}] {since} (+{wait})" if verbose else f" {since:4d}"
        if not verbose:
            return f" {since // 1000:4d}us{overhead_mark(wait // 1000 * 1000)}"
        (msec, usec), (later, rest) = (divmod(ns // 1000, 1000) for ns in (since, wait))
        return f"[{ts // 1000:08x}] {msec}.{usec:03d}ms (+{later}.{rest:03d}ms)"
