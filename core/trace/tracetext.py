"""The text of a trace, as the files trace and trace_pipe show it.

A line is the task, its pid, the CPU, five flag characters, the time and what
the tracer prints. Names are looked up once for each address and each pid; a
line is made only when it is asked for. A stack is a line like the others, and one
more for each of its addresses. Source: print_trace_line() in kernel/trace/trace.c,
trace_print_lat_fmt(), print_fn_trace() and trace_stack_print() in
kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..abi import TraceType
from .details import HIT, SYSCALL
from .events import EventTable
from .filterwords import filter_words
from .header import header
from .place import Place
from .places import KEY, Places
from .rowfilter import RowFilter
from .rowmap import RowMap
from .search import find_line, find_name, in_names
from .selection import Folded, Folds, Selection
from .textcontext import TextContext
from .tracefields import (
    comm_of,
    exact_time,
    flag_characters,
    preempt_characters,
    printable,
    split_time,
    time_text,
)

_BLOCK = 4096


class TraceText:
    """The lines of a table of events. Building it looks every name up once."""

    CALLS: ClassVar[tuple[int, ...]] = (TraceType.FN, HIT)
    """Types of events that are a call of their site."""

    def __init__(self, table: EventTable, context: TextContext) -> None:
        self.table = table
        self.context = context
        addresses = table.addresses
        self.names = self._symbols(addresses)
        """What lines show for each address."""
        self.parents = [
            f" <-{name}" if address and context.options.print_parent else ""
            for name, address in zip(self.names, addresses.tolist(), strict=True)
        ]
        """What they show for it as a caller."""
        self.texts = [printable(text) for text in table.details.texts]
        self._places: dict[int, str] = {}
        self._tasks: dict[int, str] = {}
        self._heads: dict[tuple[int, int, int, int], str] = {}
        self._callers: dict[int, str] = {}
        rows, extra = self._stacks()
        self._rows = RowMap(len(table), rows, extra)

    def __len__(self) -> int:
        """Rows, one a line."""
        return len(self._rows)

    def _symbols(self, addresses: NDArray[np.uint64]) -> list[str]:
        """What the options show for each address (`seq_print_ip_sym`)."""
        context, options = self.context, self.context.options
        if options.sym_offset:
            names = [context.symbols.format(address) for address in addresses.tolist()]
        else:
            names = context.symbols.names_of(addresses)
        if options.sym_addr:
            digits = 2 * context.pointer_size
            names = [
                f"{name} <{address:0{digits}x}>"
                for name, address in zip(names, addresses.tolist(), strict=True)
            ]
        return [
            name if address else "0"
            for name, address in zip(names, addresses.tolist(), strict=True)
        ]

    @cached_property
    def functions(self) -> list[str]:
        """The symbol each address of the table lies in, "" for none."""
        names, addresses = self.names, self.table.addresses
        if self.context.options.sym_offset or self.context.options.sym_addr:
            names = self.context.symbols.names_of(addresses)
        return [name if at else "" for name, at in zip(names, addresses.tolist(), strict=True)]

    def _stacks(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which events have more lines than one, and how many more."""
        options, stacks = self.context.options, self.table.details.stacks
        if not len(stacks) or options.raw or options.hex:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        rows = np.flatnonzero(self.table.events["type"] == TraceType.STACK)
        return rows, stacks.lengths[self.table.events["parent"][rows]]

    def row_of(self, event: int) -> int:
        """The row of event `event` of the table, its first."""
        return self._rows.row_of(event)

    @property
    def header(self) -> list[str]:
        """The comment lines over the events."""
        return header(self.context)

    @property
    def written(self) -> int:
        """Events written since the buffers were last cleared, lost ones included."""
        return self.context.written

    def site(self, row: int) -> int | None:
        """rec.ip of the event in `row`; None for one that no call site made."""
        event = self.table.events[self.event_of(row)]
        if event["type"] not in (TraceType.FN, HIT):
            return None
        return int(self.table.addresses[event["ip"]])

    def next_call(self, ip: int, start: int, among: NDArray[np.intp] | None = None) -> int | None:
        """The first row from `start` on that tells of a call of the site at `ip`.

        Of the rows `among`, rising, if given. None where there is none.
        """
        known = np.flatnonzero(self.table.addresses == np.uint64(ip))
        if not len(known):
            return None
        rows = np.arange(len(self)) if among is None else among
        rows = rows[np.searchsorted(rows, start) :]
        at, own = self._events_of(rows)
        events = self.table.events[at]
        calls = own & (events["ip"] == known[0]) & np.isin(events["type"], self.CALLS)
        found = rows[calls]
        return int(found[0]) if len(found) else None

    def _events_of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The event of each of n rows, and whether that is its own line."""
        events, parts = self._rows.of(rows)
        return events, parts == 0

    @property
    def clock_in_ns(self) -> bool:
        """Whether stamps are times; those of `counter` are numbers."""
        return self.context.clock_in_ns

    def time(self, row: int) -> int:
        """The stamp of the event in `row`: virtual ns, or the number of the clock `counter`."""
        return int(self.table.events[self.event_of(row)]["ts"])

    def hit(self, row: int) -> str | None:
        """Time and CPU of the last hit up to `row`; None where there is none.

        These name it as long as it is in the buffer, however that turns.
        """
        found = self.table.last_hit(self.event_of(row) + 1)
        if found is None:
            return None
        event = self.table.events[found]
        return f"{exact_time(int(event['ts']), self.context.clock_in_ns)} {event['cpu']}"

    def event_of(self, row: int) -> int:
        """The event that `row` is a line of."""
        events, _ = self._rows.of(np.array([row]))
        return int(events[0])

    def lines(self, start: int, stop: int) -> list[str]:
        """The lines of rows `start` to `stop` (exclusive): one line a row, fit for a screen.

        A marker can hold line ends and control characters; they are shown escaped.
        """
        return [line if line.isprintable() else _escape(line) for line in self._lines(start, stop)]

    def lines_at(self, rows: NDArray[np.intp]) -> list[str]:
        """As `lines`, of any rows."""
        return [line if line.isprintable() else _escape(line) for line in self._lines_at(rows)]

    def _lines(self, start: int, stop: int) -> list[str]:
        return self._lines_at(np.arange(start, min(stop, len(self))))

    def _lines_at(self, rows: NDArray[np.intp]) -> list[str]:
        if len(self._rows) == len(self.table):
            return self._event_lines(self.table.events[rows])
        rows, parts = self._rows.of(rows)
        lines = iter(self._event_lines(self.table.events[rows[parts == 0]]))
        return [
            self._caller(row, part - 1) if part else next(lines)
            for row, part in zip(rows.tolist(), parts.tolist(), strict=True)
        ]

    def _caller(self, event: int, number: int) -> str:
        """The line of one address of a stack."""
        stack = self.table.details.stacks.row(int(self.table.events["parent"][event]))
        address = int(stack[number])
        known = self._callers.get(address)
        if known is None:
            known = self._callers[address] = f" => {self._symbols(stack[number : number + 1])[0]}"
        return known

    def _event_lines(self, events: NDArray[np.void]) -> list[str]:
        """The line of each event, of those with more the first."""
        options = self.context.options
        whats = self._whats(events)
        if options.hex or not options.context_info:
            return whats
        pids, cpus = events["pid"].tolist(), events["cpu"].tolist()
        if options.raw:
            return [
                f"{pid} {cpu} {ts} {what}"
                for pid, cpu, ts, what in zip(pids, cpus, events["ts"].tolist(), whats, strict=True)
            ]
        # Few tasks and few states of the flags make many lines: each is put together once.
        heads = [
            self._heads.get(key) or self._head(*key)
            for key in zip(
                pids, cpus, events["flags"].tolist(), events["preempt"].tolist(), strict=True
            )
        ]
        if not self.context.clock_in_ns:
            return [
                f"{head}{time_text(ts, False)}: {what}"
                for head, ts, what in zip(heads, events["ts"].tolist(), whats, strict=True)
            ]
        seconds, microseconds = split_time(events["ts"])
        return [
            f"{head} {second:5d}.{microsecond:06d}: {what}"
            for head, second, microsecond, what in zip(
                heads, seconds.tolist(), microseconds.tolist(), whats, strict=True
            )
        ]

    def _head(self, pid: int, cpu: int, flags: int, preempt: int) -> str:
        """The line up to the time."""
        head = f"{self._task(pid)}[{cpu:03d}]"
        if self.context.options.irq_info:
            head += f" {flag_characters(flags)}{preempt_characters(preempt)}"
        self._heads[pid, cpu, flags, preempt] = head
        return head

    def _task(self, pid: int) -> str:
        known = self._tasks.get(pid)
        if known is None:
            known = f"{comm_of(pid, self.context.cmdlines):>16}-{pid:<7d} "
            if self.context.options.record_tgid:
                tgid = (self.context.tgids or {}).get(pid, 0)
                known += f"({tgid:7d}) " if tgid else "(-------) "
            self._tasks[pid] = known
        return known

    def _whats(self, events: NDArray[np.void]) -> list[str]:
        """What each event's own printer writes."""
        options = self.context.options
        columns = [events[name].tolist() for name in ("type", "ip", "parent")]
        if options.hex:
            return self._hex(events, columns)
        if options.raw:
            addresses = self.table.addresses.tolist()
            return [
                f"{addresses[ip]:x} {addresses[parent]:x}"
                if kind == TraceType.FN
                else f"# {addresses[ip]:x} {self.texts[parent]}"
                if kind == TraceType.PRINT
                else self._detail(kind, ip, parent) or f"{kind} ?"
                for kind, ip, parent in zip(*columns, strict=True)
            ]
        names, parents = self.names, self.parents
        if (events["type"] == TraceType.FN).all():
            return [names[ip] + parents[parent] for _, ip, parent in zip(*columns, strict=True)]
        return [
            names[ip] + parents[parent]
            if kind == TraceType.FN
            else f"{names[ip]}: {self.texts[parent]}"
            if kind == TraceType.PRINT
            else self._detail(kind, ip, parent) or f"Unknown type {kind}"
            for kind, ip, parent in zip(*columns, strict=True)
        ]

    def _detail(self, kind: int, ip: int, row: int) -> str | None:
        """What an event with a number of its own says; None for any other."""
        if kind == HIT:
            return self._hit(ip, row)
        if kind == TraceType.STACK:
            return f"type: {kind}" if self.context.options.raw else "<stack trace>"
        return self._call(row) if kind == SYSCALL else None

    def _call(self, row: int) -> str:
        """What row `row` of the entries and exits of system calls says."""
        call, options = self.table.details.calls[row], self.context.options
        number = int(call["id"])
        event = self.context.syscalls.get(number)
        if event is None or event.syscall.nr != call["nr"] or call["count"] < event.values:
            return f"{number} ?" if options.raw else f"Unknown type {number}"
        if options.raw:
            return f"type: {number}"
        return event.text(call["values"][: event.values].tolist(), options.verbose)

    def _hit(self, ip: int, row: int) -> str:
        """What row `row` of the hits says, at address number `ip`."""
        hit, context = self.table.details.hits[row], self.context
        number = int(hit["id"])
        fprobe = context.fprobes.get(number)
        if fprobe is None:
            return f"{number} ?" if context.options.raw else f"Unknown type {number}"
        if context.options.raw:
            return f"type: {number}"
        place = self._places.get(ip)
        if place is None:
            address = int(self.table.addresses[ip])
            place = context.symbols.format(address)
            if context.options.sym_addr:
                place += f" <{address:0{2 * context.pointer_size}x}>"
            self._places[ip] = place
        return fprobe.text(place, hit["regs"].tolist(), context.symbols.format)

    def _hex(self, events: NDArray[np.void], columns: Sequence[Sequence[int]]) -> list[str]:
        digits = 2 * self.context.pointer_size
        addresses = self.table.addresses.tolist()
        prefixes = [""] * len(events)
        if self.context.options.context_info:
            prefixes = [
                f"{pid & 0xFFFF_FFFF:08x} {cpu:08x} {ts:016x} "
                for pid, cpu, ts in zip(
                    *(events[name].tolist() for name in ("pid", "cpu", "ts")), strict=True
                )
            ]
        details = self.table.details
        ids = {HIT: details.hits["id"].tolist(), SYSCALL: details.calls["id"].tolist()}
        return [
            f"{prefix}{addresses[ip]:0{digits}x} {addresses[parent]:0{digits}x} "
            if kind == TraceType.FN
            else f"{prefix}type: {ids[kind][parent] if kind in ids else kind}"
            for prefix, kind, ip, parent in zip(prefixes, *columns, strict=True)
        ]

    def text(self) -> Iterator[str]:
        """The whole file in pieces: header, then the events."""
        yield "\n".join([*self.header, ""])
        yield from self.body()

    def body(self, lost: Mapping[int, int] | None = None) -> Iterator[str]:
        """The events in pieces; `lost` events of a CPU are told before its first one."""
        notes = {self.row_of(event): note for event, note in self._notes(lost or {}).items()}
        for start in range(0, len(self), _BLOCK):
            stop = min(start + _BLOCK, len(self))
            lines = self._lines(start, stop)
            for row in [row for row in notes if start <= row < stop]:
                lines[row - start] = notes[row] + lines[row - start]
            lines.append("")
            yield "\n".join(lines)

    def _notes(self, lost: Mapping[int, int]) -> dict[int, str]:
        """Lines that stand before an event: where a CPU's events begin."""
        cpus, first = np.unique(self.table.events["cpu"], return_index=True)
        notes: dict[int, str] = {}
        for cpu, row in zip(cpus.tolist(), first.tolist(), strict=True):
            note = f"CPU:{cpu} [LOST {lost[cpu]} EVENTS]\n" if lost.get(cpu) else ""
            # The first event of all needs no mark.
            if row and self.context.overran and self._annotates:
                note += f"##### CPU {cpu} buffer started ####\n"
            if note:
                notes[row] = note
        return notes

    @property
    def _annotates(self) -> bool:
        options = self.context.options
        return options.annotate and not (options.raw or options.hex)

    def find(
        self, needle: str, start: int, step: int, among: NDArray[np.intp] | None = None
    ) -> int | None:
        """The next row from `start` on that has `needle` in its line; `step` is 1 or -1.

        `among` are the rows to look at, rising; without it, all.
        """
        if not needle or not 0 <= start < len(self):
            return None
        find = find_name if in_names(self, needle) else find_line
        return find(self, needle, start, step, among)

    # Rows that a view shows

    @cached_property
    def places(self) -> Places:
        """How events are found in a later table."""
        return Places(self.table)

    def place(self, row: int) -> Place:
        """What the line in `row` is found by when the buffer has turned."""
        event = self.event_of(row)
        time, cpu, ip, nth = self.places.keys(np.array([event])).tolist()[0]
        return Place(time, cpu, ip, nth, self._part_of(row))

    def rows_at(self, places: Sequence[Place]) -> list[int | None]:
        """The row of each place: another line of its event where it has no such, None without."""
        keys = np.array([place[:4] for place in places], KEY)
        return [
            None if event < 0 else self._row_at(event, place.part)
            for event, place in zip(self.places.events(keys).tolist(), places, strict=True)
        ]

    def _part_of(self, row: int) -> int:
        return int(self._rows.of(np.array([row]))[1][0])

    def _row_at(self, event: int, part: int) -> int | None:
        row = self.row_of(event)
        return min(row + part, self.row_of(event + 1) - 1)

    def mask(self, only: RowFilter | None) -> NDArray[np.bool_] | None:
        """Which events `only` shows; None without one."""
        return None if only is None else only.mask(self.table, self.functions, self.context)

    def select(self, only: RowFilter | None, folds: Folds | None = None) -> Selection:
        """The rows whose events `only` shows; there are no calls to fold."""
        mask = self.mask(only)
        if mask is None:
            return Selection(np.arange(len(self)))
        if len(self) > len(self.table):
            mask = mask[self._rows.of(np.arange(len(self)))[0]]
        return Selection(np.flatnonzero(mask))

    def fold(
        self, folds: Folds | None, row: int, only: RowFilter | None = None
    ) -> tuple[Folds, int] | None:
        """`folds` with the call of `row`, or without it, and the row where it opens.

        It is the innermost whose opening `only` shows; None where there is none.
        """
        return None

    def fold_all(self, only: RowFilter | None = None) -> Folds:
        """The outermost calls of those whose opening `only` shows."""
        return Folds()

    def folded_line(self, row: int, folded: Folded) -> str:
        """The line that stands for the folded call which opens in `row`."""
        raise NotImplementedError

    def filter_words(self, row: int | None) -> list[str]:
        """Words a filter may have: those of `row` first, then all there are events for."""
        return filter_words(self, row)


def _escape(line: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
    )
