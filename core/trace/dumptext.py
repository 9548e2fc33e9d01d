"""The text of a dump: the events as ftrace_dump() prints them into the kernel's log.

Lines are those of the latency format: short, with microseconds since the buffers were
cleared, and a mark where the next event is long in coming. Source:
trace_print_lat_context() in kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

import numpy as np

from .events import EventTable
from .graphtext import mark
from .textcontext import TextContext
from .tracefields import comm_of, flag_characters, preempt_characters
from .tracetext import TraceText

HEAD = "Dumping ftrace buffer:"
DASHES = "-" * 33
EMPTY = "   (ftrace buffer empty)"


class DumpText(TraceText):
    """Events in the latency format; `time_start` is the trace clock's time to count from."""

    def __init__(self, table: EventTable, context: TextContext, time_start: int) -> None:
        super().__init__(table, context)
        self._start = time_start

    def _lines(self, start: int, stop: int) -> list[str]:
        options = self.context.options
        if options.raw or options.hex or not options.context_info:
            return super()._lines(start, stop)
        events = self.table.events[start:stop]
        columns = [events[name].tolist() for name in ("pid", "cpu", "flags", "preempt")]
        times = self.table.events["ts"][start : stop + 1].astype(np.int64)
        waits = np.append(np.diff(times), 0)[: len(events)].tolist()
        return [
            f"{self._lat_head(*key)}{self._lat_time(ts, wait)}: {what}"
            for *key, ts, wait, what in zip(
                *columns, times.tolist(), waits, self._whats(events), strict=False
            )
        ]

    def _lat_head(self, pid: int, cpu: int, flags: int, preempt: int) -> str:
        comm = comm_of(pid, self.context.cmdlines)
        if self.context.options.verbose:
            # Each event is a search of its own, so its number is always the first.
            return f"{comm:>16} {pid:7d} {cpu:3d} {flags} {preempt & 0xF:08x} {1:08x} "
        characters = flag_characters(flags) + preempt_characters(preempt)
        return f"{comm[:8]:>8}-{pid:<7d} {cpu:3d}{characters}"

    def _lat_time(self, ts: int, wait: int) -> str:
        since, verbose = ts - self._start, self.context.options.verbose
        if not self.context.clock_in_ns:
            return f"[{ts:016x}] {since} (+{wait})" if verbose else f" {since:4d}"
        if not verbose:
            return f" {since // 1000:4d}us{mark(wait // 1000 * 1000)}"
        (msec, usec), (later, rest) = (divmod(ns // 1000, 1000) for ns in (since, wait))
        return f"[{ts // 1000:08x}] {msec}.{usec:03d}ms (+{later}.{rest:03d}ms)"
