"""Rows of events in the default format: task, CPU, flags, time, and the event's own text.

Names are looked up once for each address and each task. A stack trace has one row of
its own and one more for each of its addresses. Source: print_trace_line() in
kernel/trace/trace.c, trace_print_lat_fmt(), print_fn_trace() and trace_stack_print() in
kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ...events.fields import COMMON_SIZE
from ...events.printers import Printer
from ...events.syscalls import SyscallEvent
from ..buffer.details import EVENT, HIT, SYSCALL
from ..buffer.events import EventTable
from ..buffer.timetext import split_time
from .columns import Column, Field, Fields
from .columntexts import comm_of, flag_characters, preempt_characters
from .header import header, titles
from .labels import Labels
from .rowmap import RowMap, stack_rows
from .textcontext import TextContext
from .tracetext import TraceText

_SHAPES = dict.fromkeys((TraceType.FN, HIT, EVENT), Column.CALLER)
"""Column of the text after an event's name, by type; `TEXT` for other types."""

_STATES = "RSDTtXZPI"


def _state(number: int) -> str:
    """Return the letter of a task's state (`task_index_to_char`)."""
    return _STATES[number] if number < len(_STATES) else "?"


def default_text(table: EventTable, context: TextContext) -> TraceText:
    """Return the events of `table` as all tracers but function_graph print them."""
    rows = RowMap(len(table), *stack_rows(table, context.options))
    return TraceText(rows, DefaultFormatter(table, context))


class DefaultFormatter:
    """Formats events in the default format, or in that of the options raw and hex."""

    def __init__(self, table: EventTable, context: TextContext) -> None:
        self.table = table
        self.context = context
        self.labels = Labels(table, context)
        self._heads: dict[int, str] = {}
        self._head_fields: dict[str, Fields] = {}
        self._tasks: dict[int, str] = {}
        self._callers: dict[int, str] = {}
        self._probed: dict[int, str] = {}
        self._printers: dict[int, Printer] = {}
        self._symbols: dict[tuple[int, bool], str] = {}

    @property
    def header(self) -> list[str]:
        """The comment lines above the events."""
        return header(self.context)

    @property
    def titles(self) -> Fields:
        """The titles of the columns."""
        return titles(self.context)

    def texts(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[str]:
        """Return the text of n rows, given the event and the part of each."""
        if not parts.any():
            return self._event_texts(events)
        own = iter(self._event_texts(events[parts == 0]))
        return [
            self.caller(event, part - 1) if part else next(own)
            for event, part in zip(events.tolist(), parts.tolist(), strict=True)
        ]

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of n rows, given the event and the part of each."""
        own = iter(self._event_fields(events[parts == 0]))
        return [
            ((Column.TEXT, self.caller(event, part - 1)),) if part else next(own)
            for event, part in zip(events.tolist(), parts.tolist(), strict=True)
        ]

    def caller(self, event: int, number: int) -> str:
        """Return the row of address `number` of a stack trace."""
        stack = self.table.details.stacks.row(int(self.table.events["parent"][event]))
        address = int(stack[number])
        known = self._callers.get(address)
        if known is None:
            symbols = self.labels.symbols(stack[number : number + 1])
            known = self._callers[address] = f" => {symbols[0]}"
        return known

    def own_texts(self, events: NDArray[np.intp]) -> tuple[list[str], list[str]]:
        """Return the name of each event and the text after it; joined, they are its own text."""
        rows = self.table.events[events]
        options = self.context.options
        if not (options.raw or options.hex) and (rows["type"] == TraceType.FN).all():
            names, callers = self._columns
            return names[rows["ip"]].tolist(), callers[rows["parent"]].tolist()
        kinds, ips, parents = (rows[name].tolist() for name in ("type", "ip", "parent"))
        text_of = self._hex if options.hex else self._raw if options.raw else self._own_text
        pairs = [text_of(*each) for each in zip(kinds, ips, parents, strict=True)]
        return [name for name, _ in pairs], [rest for _, rest in pairs]

    def own_fields(self, event: int) -> Iterator[Field]:
        """Generate the fields of an event's own text; with the option hex, of its whole row."""
        if self.context.options.hex:
            return iter(next(self._event_fields(np.array([event]))))
        (name,), (rest,) = self.own_texts(np.array([event]))
        return self._own_fields(int(self.table.events["type"][event]), name, rest)

    def _own_fields(self, kind: int, name: str, rest: str) -> Iterator[Field]:
        if name:
            yield Column.FUNCTION, name
        if rest:
            yield _SHAPES.get(kind, Column.TEXT), rest

    # The text before an event's own text

    def _event_texts(self, events: NDArray[np.intp]) -> list[str]:
        names, rests = self.own_texts(events)
        if not self.context.options.context_info:
            texts = [name + rest for name, rest in zip(names, rests, strict=True)]
        else:
            texts = [
                f"{head}{time}{name}{rest}"
                for head, time, name, rest in zip(*self._before(events), names, rests, strict=True)
            ]
        for at, message in self._messages(events):
            texts[at] = message
        return texts

    def _messages(self, events: NDArray[np.intp]) -> Iterator[tuple[int, str]]:
        """Generate the rows that are only a message because of the option printk-msg-only."""
        if self.context.options.printk_msg_only:
            rows = self.table.events[events]
            for at in np.flatnonzero(np.isin(rows["type"], (TraceType.PRINT, EVENT))).tolist():
                message = self.message(int(rows["type"][at]), int(rows["parent"][at]))
                if message is not None:
                    yield at, message

    def message(self, kind: int, parent: int) -> str | None:
        """Return the message of trace_marker or trace_printk alone; None for other events."""
        if kind == TraceType.PRINT:
            return self.labels.texts[parent]
        if kind == EVENT and int(self.table.details.records.ids[parent]) in self._printk:
            return self._event(parent)[1].removeprefix(": ")
        return None

    @cached_property
    def _printk(self) -> frozenset[int]:
        """The types of the events that trace_printk() makes without formatting its message."""
        names = ("bprint", "bputs")
        events = self.context.events.items()
        return frozenset(
            number for number, each in events if each.group == "ftrace" and each.name in names
        )

    def _event_fields(self, events: NDArray[np.intp]) -> Iterator[Fields]:
        names, rests = self.own_texts(events)
        kinds = self.table.events["type"][events].tolist()
        owns = [tuple(self._own_fields(*each)) for each in zip(kinds, names, rests, strict=True)]
        messages = dict(self._messages(events))
        if not self.context.options.context_info:
            for at, own in enumerate(owns):
                yield ((Column.TEXT, messages[at]),) if at in messages else own
            return
        for at, (head, time, own) in enumerate(zip(*self._before(events), owns, strict=True)):
            if at in messages:
                yield ((Column.TEXT, messages[at]),)
            else:
                yield (*self._head_fields[head], (Column.TIME, time), *own)

    def _before(self, events: NDArray[np.intp]) -> tuple[list[str], list[str]]:
        """Return what precedes the time of each event, and the time with its separator."""
        rows, options = self.table.events[events], self.context.options
        # Many rows share few tasks and few states of the flags: each head is made once.
        low = rows["cpu"].astype(np.int64) << 16 | rows["flags"].astype(np.int64) << 8
        keys = (rows["pid"].astype(np.int64) << 24 | low | rows["preempt"]).tolist()
        for key in set(keys) - self._heads.keys():
            self._head(key)
        heads = [self._heads[key] for key in keys]
        stamps = rows["ts"]
        if options.hex:
            return heads, [f"{ts:016x} " for ts in stamps.tolist()]
        if options.raw:
            return heads, [f"{ts} " for ts in stamps.tolist()]
        if not self.context.clock_in_ns:
            return heads, [f"{ts:12d}: " for ts in stamps.tolist()]
        seconds, microseconds = split_time(stamps)
        return heads, [
            f"{second:5d}.{microsecond:06d}: "
            for second, microsecond in zip(seconds.tolist(), microseconds.tolist(), strict=True)
        ]

    def _head(self, key: int) -> None:
        """Make a row's text up to the time, and its fields; `key` is pid, CPU and flags."""
        pid, cpu, flags, preempt = key >> 24, key >> 16 & 0xFF, key >> 8 & 0xFF, key & 0xFF
        options = self.context.options
        fields: Fields
        if options.hex:
            task, at = f"{pid & 0xFFFF_FFFF:08x} ", f"{cpu:08x} "
        elif options.raw:
            task, at = f"{pid} ", f"{cpu} "
        else:
            task, at = self._task(pid), f"[{cpu:03d}] "
        fields = ((Column.TASK, task), (Column.CPU, at))
        if options.irq_info and not (options.raw or options.hex):
            marks = f"{flag_characters(flags)}{preempt_characters(preempt)} "
            fields = (*fields, (Column.FLAGS, marks))
        head = "".join(text for _, text in fields)
        self._heads[key] = head
        self._head_fields[head] = fields

    def _task(self, pid: int) -> str:
        known = self._tasks.get(pid)
        if known is None:
            known = f"{comm_of(pid, self.context.cmdlines):>16}-{pid:<7d} "
            if self.context.options.record_tgid:
                tgid = (self.context.tgids or {}).get(pid, 0)
                known += f"({tgid:7d}) " if tgid else "(-------) "
            self._tasks[pid] = known
        return known

    # An event's own text: its name, and what follows

    @cached_property
    def _columns(self) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """Names and callers as arrays, which numpy can index by many rows at once."""
        return np.array(self.labels.names, object), np.array(self.labels.callers, object)

    @cached_property
    def _addresses(self) -> list[int]:
        """The table's addresses as plain numbers, which format faster than numpy's."""
        addresses: list[int] = self.table.addresses.tolist()
        return addresses

    def _own_text(self, kind: int, ip: int, parent: int) -> tuple[str, str]:
        labels = self.labels
        if kind == TraceType.FN:
            return labels.names[ip], labels.callers[parent]
        if kind == TraceType.PRINT:
            return labels.names[ip], f": {labels.texts[parent]}"
        if kind == TraceType.STACK:
            return "", "<stack trace>"
        if kind == TraceType.CTX:
            return "", self._switch(parent)
        if kind == HIT:
            return self._hit(ip, parent)
        if kind == SYSCALL:
            return self._call(parent)
        if kind == EVENT:
            return self._event(parent)
        return "", f"Unknown type {kind}"

    def _raw(self, kind: int, ip: int, parent: int) -> tuple[str, str]:
        addresses, details = self._addresses, self.table.details
        if kind == TraceType.FN:
            return "", f"{addresses[ip]:x} {addresses[parent]:x}"
        if kind == TraceType.PRINT:
            return "", f"# {addresses[ip]:x} {self.labels.texts[parent]}"
        if kind in (TraceType.STACK, TraceType.CTX):
            return "", f"type: {kind}"
        known = True
        if kind == HIT:
            kind = int(details.hits["id"][parent])
            known = kind in self.context.fprobes
        elif kind == SYSCALL:
            known = self._syscall(parent) is not None
            kind = int(details.calls["id"][parent])
        elif kind == EVENT:
            kind = int(details.records.ids[parent])
            if self._is_raw_data(kind):
                return "", self._raw_data(parent)
            known = kind in self.context.events
        else:
            known = False
        return "", f"type: {kind}" if known else f"{kind} ?"

    def _hex(self, kind: int, ip: int, parent: int) -> tuple[str, str]:
        details, digits = self.table.details, 2 * self.context.pointer_size
        if kind == TraceType.FN:
            addresses = self._addresses
            return "", f"{addresses[ip]:0{digits}x} {addresses[parent]:0{digits}x} "
        if kind == HIT:
            kind = int(details.hits["id"][parent])
        elif kind == SYSCALL:
            kind = int(details.calls["id"][parent])
        elif kind == EVENT:
            kind = int(details.records.ids[parent])
        return "", f"type: {kind}"

    def _switch(self, row: int) -> str:
        """Return the text of row `row` of the task switches (`trace_ctxwake_print`)."""
        each = self.table.details.switches[row]
        before, after = (
            f"{each[f'{task}_pid']:7d}:{each[f'{task}_prio']:3d}:{_state(each[f'{task}_state'])}"
            for task in ("prev", "next")
        )
        sign = "  +" if each["wakeup"] else "==>"
        comm = comm_of(int(each["next_pid"]), self.context.cmdlines)
        return f" {before} {sign} [{each['next_cpu']:03d}] {after} {comm}"

    def _syscall(self, row: int) -> SyscallEvent | None:
        """Return the definition of row `row` of the system calls; None if it does not fit."""
        call = self.table.details.calls[row]
        event = self.context.syscalls.get(int(call["id"]))
        if event is None or event.syscall.nr != call["nr"] or call["count"] < event.values:
            return None
        return event

    def _call(self, row: int) -> tuple[str, str]:
        """Return the text of row `row` of the system calls."""
        call, event = self.table.details.calls[row], self._syscall(row)
        if event is None:
            return "", f"Unknown type {int(call['id'])}"
        values = call["values"][: event.values].tolist()
        return event.syscall.name, event.text(values, self.context.options.verbose)

    def _event(self, row: int) -> tuple[str, str]:
        """Return the text of row `row` of the kernel's trace events."""
        records = self.table.details.records
        number = int(records.ids[row])
        if self._is_raw_data(number):
            return "", self._raw_data(row)
        event = self.context.events.get(number)
        if event is None:
            return "", f"Unknown type {number}"
        printer = self._printers.get(number)
        if printer is None:
            context = self.context
            printer = Printer(
                event,
                self._symbol,
                context.printk_formats,
                context.ptr_key,
                context.options.hash_ptr,
            )
            self._printers[number] = printer
        return printer.shown(records.row(row))

    def _is_raw_data(self, number: int) -> bool:
        """Return whether events of this type were written to trace_marker_raw."""
        event = self.context.events.get(number)
        return number == TraceType.RAW_DATA and (event is None or event.name == "raw_data")

    def _raw_data(self, row: int) -> str:
        """Return the text of data written to trace_marker_raw (`trace_raw_data`)."""
        records = self.table.details.records
        data = records.row(row)[COMMON_SIZE:]
        number = int.from_bytes(data[:4], "little" if records.order == "<" else "big")
        return f"# {number:x} buf:{''.join(f' {byte:02x}' for byte in data[4:])}"

    def _symbol(self, address: int, offset: bool) -> str:
        """Return the symbol at `address`, for a print format."""
        known = self._symbols.get((address, offset))
        if known is None:
            symbols = self.context.symbols
            known = symbols.format(address) if offset else symbols.name(address)
            self._symbols[address, offset] = known
        return known

    def _hit(self, ip: int, row: int) -> tuple[str, str]:
        """Return the text of row `row` of the hits, at address number `ip`."""
        hit, context = self.table.details.hits[row], self.context
        fprobe = context.fprobes.get(int(hit["id"]))
        if fprobe is None:
            return "", f"Unknown type {int(hit['id'])}"
        place = self._probed.get(ip)
        if place is None:
            address = int(self.table.addresses[ip])
            place = context.symbols.format(address)
            if context.options.sym_addr:
                place += f" <{address:0{2 * context.pointer_size}x}>"
            self._probed[ip] = place
        values = fprobe.values(place, hit["regs"].tolist(), context.symbols.format)
        return f"{fprobe.event}:", values
