"""A recorded trace: its events as a table, and everything that their text needs.

Events of the tracers become the same rows of an `EventTable` as those of a guest, so that every
tool for traces works on them. Any other event keeps its bytes; its text is made from its `format`
when it is shown, as for a guest's trace event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ...distinct import distinct
from ...errors import UsageError
from ...events import fields
from ...events.fields import Field
from ...events.formats import EventFormat, parse_formats
from ...events.printers import printk_formats
from ..buffer.details import EVENT as TRACE_EVENT
from ..buffer.details import RETURN, SWITCHED, Details, Records, Stacks
from ..buffer.events import EVENT, Addresses, EventTable
from ..text.defaultformat import default_text
from ..text.graphformat import graph_text
from ..text.textcontext import TextContext
from ..text.tracetext import TraceText
from .container import Buffer, Header, TraceFile
from .pages import RECORD as PLACE
from .pages import CpuRecords, Layout, records
from .symbols import RecordedSymbols

_BLOCK = 1 << 18
"""Number of records read at once for a field."""

_OVERRUN = re.compile(r"^overrun:\s*(\d{1,18})\s*$", re.MULTILINE | re.ASCII)

Rows = NDArray[np.intp]


class Recording:
    """One buffer of a file, decoded."""

    def __init__(self, path: Path, instance: str = "") -> None:
        """Read `path`; `instance` is the trace instance, "" for the top one.

        Raises `TraceFileError`, and `UsageError` if the file has no such instance.
        """
        with TraceFile(path) as file:
            self.header = header = file.header
            if header.text and not header.buffers:
                raise file.damaged("holds only the text of a latency tracer, and no events")
            buffer = _buffer(header, instance)
            self.layout = Layout.of(header.header_page, header.byteorder, buffer.page_size)
            parts: list[bytes] = []
            found: list[CpuRecords] = []
            for cpu, data in file.data(buffer):
                parts.append(
                    data.ljust(-(-len(data) // buffer.page_size) * buffer.page_size, b"\0")
                )
                found.append(records(self.layout, cpu, data))
        self.cpus = max(header.cpus, max((each.cpu + 1 for each in buffer.pages), default=1))
        self.formats = parse_formats(
            header.formats, fields.Layout(header.byteorder, self.layout.commit_size)
        )
        self.symbols = RecordedSymbols(header.kallsyms)
        self.cmdlines = _cmdlines(header.cmdlines)
        data = b"".join(parts)
        place, lost = _joined(found, [len(part) for part in parts])
        place["ts"] = _times(place["ts"], header)
        self.table, self.lost = _Decoder(self, np.frombuffer(data, np.uint8), place).table(
            lost, sum(each.damaged for each in found)
        )

    @property
    def machine(self) -> str:
        """The kernel and its machine, as uname prints them; "" if the file does not say."""
        return self.header.uname

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns, instead of counts of events, ticks or cycles."""
        clock = self.header.clock
        counts = clock in ("counter", "uptime") or clock.endswith(("-tsc", "-tb"))
        return self.header.scale is not None or not counts

    @property
    def tracer(self) -> str:
        """Name of the tracer that wrote the events."""
        kinds = self.table.events["type"]
        if np.isin(kinds, (TraceType.GRAPH_ENT, TraceType.GRAPH_RET)).any():
            return "function_graph"
        return "function" if (kinds == TraceType.FN).any() else "nop"

    def text(self) -> TraceText:
        """Return the trace as the kernel's file `trace` prints it."""
        overrun = sum(
            int(count) for stats in self.header.stats for count in _OVERRUN.findall(stats)
        )
        missing = sum(max(count, 0) for count in self.lost.values())
        context = TextContext(
            symbols=self.symbols,
            tracer=self.tracer,
            cpus=self.cpus,
            pointer_size=self.layout.commit_size,
            cmdlines=self.cmdlines,
            clock_in_ns=self.clock_in_ns,
            in_buffer=len(self.table),
            written=len(self.table) + max(overrun, missing),
            events=self.formats,
            printk_formats=printk_formats(self.header.printk_formats),
            lost=self.lost,
        )
        if context.tracer == "function_graph":
            return graph_text(self.table, context, irq_text=self.symbols.irq_text)
        return default_text(self.table, context)


def _buffer(header: Header, instance: str) -> Buffer:
    found = {each.name: each for each in header.buffers}
    if instance not in found:
        named = [name for name in found if name]
        known = f"choose from: {', '.join(named)}" if named else "it has none"
        raise UsageError(f"no trace instance named '{instance}' in the file ({known})")
    return found[instance]


def _cmdlines(text: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in text.splitlines():
        pid, _, comm = line.partition(" ")
        if pid.isascii() and pid.isdigit() and len(pid) < 11:
            found[int(pid)] = comm
    return found


def _joined(
    found: Sequence[CpuRecords], sizes: Sequence[int]
) -> tuple[NDArray[np.void], dict[int, int]]:
    """Return the records of all CPUs, and the number of events lost before some of them."""
    lost: dict[int, int] = {}
    tables = [np.empty(0, PLACE)]
    at = count = 0
    for each, size in zip(found, sizes, strict=True):
        each.records["at"] += at
        lost |= {count + index: number for index, number in each.lost.items()}
        tables.append(each.records)
        at += size
        count += len(each.records)
    return np.concatenate(tables), lost


def _times(ts: NDArray[np.uint64], header: Header) -> NDArray[np.uint64]:
    """Return time stamps in ns, as trace-cmd report prints them."""
    if header.scale is not None:
        factor, shift, _ = header.scale
        high, low = ts >> np.uint64(32), ts & np.uint64(0xFFFF_FFFF)
        ts = (low * np.uint64(factor)) >> np.uint64(shift)
        high = high * np.uint64(factor)
        ts += high << np.uint64(32 - shift) if shift <= 32 else high >> np.uint64(shift - 32)
    return ts + np.uint64(header.shift_ns % (1 << 64))


class _Decoder:
    """Makes the table of a recording."""

    def __init__(self, owner: Recording, data: NDArray[np.uint8], place: NDArray[np.void]) -> None:
        self._data, self._place = data, place
        self._formats = owner.formats
        self._order = "<" if owner.header.byteorder == "little" else ">"
        self._long = owner.layout.commit_size
        common = next(iter(owner.formats.values()), None)
        self._common: Mapping[str, Field] = {} if common is None else common.by_name
        self._addresses = Addresses()
        self._events = np.zeros(len(place), EVENT)
        self._texts: list[bytes] = []
        self._returns = [np.empty(0, RETURN)]
        self._switches = [np.empty(0, SWITCHED)]
        self._stacks = [Stacks()]

    def table(self, lost: Mapping[int, int], damaged: int) -> tuple[EventTable, dict[int, int]]:
        """Return the table, and the number of events lost before some of its rows."""
        events, place = self._events, self._place
        self._addresses.indices(np.zeros(1, np.uint64))  # number 0 is address 0
        events["ts"], events["cpu"] = place["ts"], place["cpu"]
        whole = place["size"] >= 8
        damaged += int((~whole).sum())
        kinds = np.full(len(place), -1, np.int64)
        rows = np.flatnonzero(whole)
        kinds[rows] = self._common_field("type", rows, 0, 2)
        events["flags"][rows] = self._common_field("flags", rows, 2, 1)
        events["preempt"][rows] = self._common_field("preempt_count", rows, 3, 1)
        pid = self._common_field("pid", rows, 4, 4)
        events["pid"][rows] = pid.astype(np.uint32).view(np.int32)
        left = np.ones(len(place), np.bool_)
        for number in distinct(kinds).tolist():
            read = self._readers().get(self._name(number))
            if read is None:
                continue
            form = self._formats[number]
            of_kind = np.flatnonzero(kinds == number)
            needed = max((field.end for field in form.by_name.values()), default=0)
            if form.name in ("print", "kernel_stack"):
                needed = 8 + self._long
            sound = of_kind[place["size"][of_kind] >= needed]
            if read(form, sound):
                left[sound] = False
        shown = np.flatnonzero(left)
        events["type"][shown] = TRACE_EVENT
        events["parent"][shown] = np.arange(len(shown))
        order = self._by_time()
        details = Details(
            tuple(self._texts),
            returns=np.concatenate(self._returns),
            stacks=Stacks.joined(self._stacks),
            switches=np.concatenate(self._switches),
            records=self._records(np.maximum(kinds, 0), shown),
        )
        table = EventTable(
            events if order is None else events[order], self._addresses.known(), details, damaged
        )
        rank = np.arange(len(events))
        if order is not None:
            rank[order] = np.arange(len(events))
        return table, {int(rank[row]): number for row, number in lost.items()}

    def _records(self, kinds: NDArray[np.int64], rows: Rows) -> Records:
        """Return the records `rows`, which stay in the pages; `kinds` are the types of all."""
        at = (self._place["at"][rows] // 4).astype(np.intp)
        ends = at + (self._place["size"][rows] // 4).astype(np.intp)
        words = self._data.view(f"{self._order}u4")
        return Records(kinds[rows].astype(np.uint16), at, ends, words, self._order)

    def _by_time(self) -> Rows | None:
        """Return the order of the events of all CPUs; None if they are in order."""
        times = self._events["ts"].copy()
        cpus = self._events["cpu"]
        for cpu in distinct(cpus).tolist():
            # In a damaged page times can go back; the order of its events is kept.
            own = cpus == cpu
            times[own] = np.maximum.accumulate(times[own])
        if not (times[1:] < times[:-1]).any():
            return None
        return np.argsort(times, kind="stable")

    def _name(self, number: int) -> str:
        form = self._formats.get(number)
        return form.name if form is not None and form.group == "ftrace" else ""

    def _readers(self) -> Mapping[str, Callable[[EventFormat, Rows], bool]]:
        return {
            "function": self._functions,
            "funcgraph_entry": self._entries,
            "funcgraph_exit": self._exits,
            "print": self._prints,
            "kernel_stack": self._traces,
            "context_switch": self._switched,
            "wakeup": self._switched,
        }

    # Fields

    def _common_field(self, name: str, rows: Rows, offset: int, size: int) -> NDArray[np.uint64]:
        field = self._common.get(f"common_{name}")
        if field is None or field.end > 8 or field.size not in (1, 2, 4):
            field = Field("", name, offset, size)
        return self._values(field, rows)

    def _values(self, field: Field, rows: Rows) -> NDArray[np.uint64]:
        """Return a field of 1, 2, 4 or 8 bytes of the records `rows`."""
        return self._at(self._place["at"][rows] + field.offset, field.size)

    def _at(self, places: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
        found = np.empty(len(places), np.uint64)
        byte = np.arange(size)
        for start in range(0, len(places), _BLOCK):
            block = places[start : start + _BLOCK]
            data = np.ascontiguousarray(self._data[block[:, None] + byte])
            found[start : start + _BLOCK] = data.view(f"{self._order}u{size}").reshape(-1)
        return found

    @staticmethod
    def _has(form: EventFormat, *names: str) -> bool:
        """Return whether these are plain numbers in the record."""
        fields = [form.by_name.get(name) for name in names]
        return all(each is not None and each.size in (1, 2, 4, 8) for each in fields)

    def _column(self, form: EventFormat, name: str, rows: Rows) -> NDArray[np.uint64]:
        return self._values(form.by_name[name], rows)

    # Events of the tracers; each method returns false for a format that it does not know

    def _functions(self, form: EventFormat, rows: Rows) -> bool:
        if not self._has(form, "ip", "parent_ip"):
            return False
        events = self._events
        events["type"][rows] = TraceType.FN
        events["ip"][rows] = self._addresses.indices(self._column(form, "ip", rows))
        events["parent"][rows] = self._addresses.indices(self._column(form, "parent_ip", rows))
        return True

    def _entries(self, form: EventFormat, rows: Rows) -> bool:
        if not self._has(form, "func", "depth"):
            return False
        events = self._events
        events["type"][rows] = TraceType.GRAPH_ENT
        events["ip"][rows] = self._addresses.indices(self._column(form, "func", rows))
        events["parent"][rows] = self._column(form, "depth", rows).astype(np.uint32)
        return True

    def _exits(self, form: EventFormat, rows: Rows) -> bool:
        if not self._has(form, "func", "depth", "calltime", "rettime"):
            return False
        events = self._events
        events["type"][rows] = TraceType.GRAPH_RET
        events["ip"][rows] = self._addresses.indices(self._column(form, "func", rows))
        events["parent"][rows] = self._first(self._returns) + np.arange(len(rows))
        found = np.zeros(len(rows), RETURN)
        for name in RETURN.names or ():
            if self._has(form, name):
                found[name] = self._column(form, name, rows)
        self._returns.append(found)
        return True

    def _switched(self, form: EventFormat, rows: Rows) -> bool:
        names = [name for name in SWITCHED.names or () if name != "wakeup"]
        if not self._has(form, *names):
            return False
        self._events["type"][rows] = TraceType.CTX
        self._events["parent"][rows] = self._first(self._switches) + np.arange(len(rows))
        found = np.zeros(len(rows), SWITCHED)
        for name in names:
            found[name] = self._column(form, name, rows)
        found["wakeup"] = form.name == "wakeup"
        self._switches.append(found)
        return True

    def _prints(self, form: EventFormat, rows: Rows) -> bool:
        text = form.by_name.get("buf")
        if text is None or not self._has(form, "ip") or form.by_name["ip"].end > 8 + self._long:
            return False
        events = self._events
        events["type"][rows] = TraceType.PRINT
        events["ip"][rows] = self._addresses.indices(self._column(form, "ip", rows))
        events["parent"][rows] = len(self._texts) + np.arange(len(rows))
        data = self._data
        places = self._place[rows]
        for at, size in zip(places["at"].tolist(), places["size"].tolist(), strict=True):
            self._texts.append(data[at + text.offset : at + size].tobytes().partition(b"\0")[0])
        return True

    def _traces(self, form: EventFormat, rows: Rows) -> bool:
        size, caller = form.by_name.get("size"), form.by_name.get("caller")
        if size is None or caller is None or size.size != 4 or caller.dynamic:
            return False
        events, place = self._events, self._place[rows]
        events["type"][rows] = TraceType.STACK
        events["parent"][rows] = self._first(self._stacks) + np.arange(len(rows))
        room = np.maximum(place["size"].astype(np.int64) - caller.offset, 0) // self._long
        count = np.minimum(self._values(size, rows).astype(np.int64), room)
        starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(count)]).astype(np.intp)
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], count)
        at = np.repeat(place["at"] + caller.offset, count) + inside * self._long
        self._stacks.append(Stacks(starts, self._at(at, self._long)))
        return True

    @staticmethod
    def _first(tables: Sequence[Stacks] | Sequence[NDArray[np.void]]) -> int:
        return sum(map(len, tables))
