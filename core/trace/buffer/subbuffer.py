"""Events in sub-buffer pages, decoded many pages at once.

A page is a u64 time stamp, the commit word (bytes of data that count) and data
at 16. An event starts with a u32: 5 bits type_len and 27 bits time delta, the
bit fields from the low end on a little-endian guest and from the high end on a
big-endian one. type_len 1..28 is the payload's length in words; 0 puts
length + 4 into the next word; 29 is padding (delta 0: to the end of the page,
else its length + 4 in the next word); 30 extends the next event's delta by the
next word, shifted by 27; 31 is an absolute time stamp of 59 bits. A payload is
`struct trace_entry`, followed by: for a function two longs, ip and parent_ip; for a hit of
an fprobe these and the registers; for a system call its number, padded to a long, and its
arguments or result; for a stack trace the number of its addresses, padded likewise, and
the addresses; for a task switch or a wakeup `struct ctx_switch_entry`; for a trace event of the
kernel the fields of its format. Source: include/linux/ring_buffer.h, kernel/trace/ring_buffer.c,
arches/guest/include/machine.h, tracer.h and tracepoint.h.

The guest may have written anything: every length is checked against the commit word. A
page is read up to the first invalid event and is then counted as damaged. The position of
an event depends on the event before it. If a page has only function events, they are at
equal distances. In other pages the chain is followed for all pages at once by doubling: 2**i
known events and the jump over 2**i events give the next 2**i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...abi import (
    FIRST_EVENT_ID,
    FIRST_PROBE_EVENT_ID,
    FIRST_SYSCALL_ID,
    FIRST_TRACE_EVENT_ID,
    RB_PAGE_HEADER,
    RB_PAGE_SIZE,
    SYSCALL_ARGS_MAX,
    TraceType,
)
from ...distinct import distinct
from .details import (
    CALL,
    RECORDS,
    RETURN,
    SWITCHED,
    Collector,
    Details,
    Records,
    Stacks,
    concatenate,
    hit_layout,
)

DATA_SIZE = RB_PAGE_SIZE - RB_PAGE_HEADER
"""Bytes of events that a page holds."""

COMMIT_MASK = 0xF_FFFF
"""Bits of the commit word that count bytes; the kernel keeps flags above them."""

_ENTRY_SIZE = 8  # struct trace_entry
_SWITCH_SIZE = 16  # rest of struct ctx_switch_entry
_DELTA_BITS = 27
_STAMP_BITS = 59
_PART = 512
_CHUNK = 128  # pages walked at once: a walk keeps ten words for each word of a page

_LONG_DATA, _PADDING, _TIME_EXTEND, _TIME_STAMP = 0, 29, 30, 31

RAW = np.dtype(
    [
        ("ts", "u8"),
        ("ip", "u8"),
        ("parent", "u8"),
        ("pid", "i4"),
        ("page", "u4"),
        ("offset", "u2"),
        ("size", "u2"),
        ("type", "u2"),
        ("flags", "u1"),
        ("preempt", "u1"),
    ]
)
"""A decoded event: `page` is an index into the given pages, `offset` and `size` are bytes in the
page's data, headers included. `parent` is the row of an event's details, if it has any, and
the depth of a `GRAPH_ENT`."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The events of some pages in their order: RAW records, shape (n,)."""

    events: NDArray[np.void]
    details: Details
    damaged: NDArray[np.bool_]
    """Whether each page ended before the length in its commit word, shape (p,)."""


@dataclass(frozen=True, slots=True)
class PageFormat:
    """Layout of a guest's pages: byte order (`little` or `big`), and bytes of a long."""

    byteorder: str
    pointer_size: int
    registers: int = 0
    """Number of registers that an fprobe's hit saves, each a long (`Abi.pt_regs`)."""
    page_size: int = RB_PAGE_SIZE
    header: int = RB_PAGE_HEADER
    """Bytes before the data of a page."""

    @property
    def function_size(self) -> int:
        """Bytes of a function event, its header included."""
        return 4 + _ENTRY_SIZE + 2 * self.pointer_size

    @property
    def hit_size(self) -> int:
        """Bytes of the payload of an fprobe's hit."""
        return _ENTRY_SIZE + (2 + self.registers) * self.pointer_size

    @property
    def order(self) -> str:
        """The byte order as numpy writes it."""
        return "<" if self.byteorder == "little" else ">"

    def function_event(self) -> np.dtype[np.void]:
        """Return the layout of a function event in the page."""
        order, long = self.order, f"{self.order}u{self.pointer_size}"
        return np.dtype(
            [
                ("header", f"{order}u4"),
                ("type", f"{order}u2"),
                ("flags", "u1"),
                ("preempt", "u1"),
                ("pid", f"{order}i4"),
                ("ip", long),
                ("parent", long),
            ]
        )

    def stamps(self, pages: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return the time stamp of each of `pages`, shape (p, 4096)."""
        words = np.ascontiguousarray(pages[:, :8]).view(f"{self.order}u8")
        return words.reshape(-1).astype(np.uint64)

    def commits(self, pages: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the bytes of data that each of `pages` claims to hold."""
        words = np.ascontiguousarray(pages[:, 8:16]).view(f"{self.order}u8")
        return (words.reshape(-1) & np.uint64(COMMIT_MASK)).astype(np.int64)

    def split(self, words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return type_len and time delta of event headers."""
        if self.byteorder == "little":
            return words & np.uint32(31), words >> np.uint32(5)
        return words >> np.uint32(_DELTA_BITS), words & np.uint32((1 << _DELTA_BITS) - 1)

    def decode_all(self, pages: NDArray[np.uint8]) -> Iterator[Decoded]:
        """Decode any number of pages in parts small enough for the processor's cache."""
        for start in range(0, len(pages), _PART):
            yield self.decode(pages[start : start + _PART])

    def decode(self, pages: NDArray[np.uint8]) -> Decoded:
        """Decode `pages`, shape (p, 4096), whatever they contain."""
        commit = self.commits(pages)
        damaged = (commit > DATA_SIZE) | (commit % 4 != 0)
        commit = np.minimum(commit, DATA_SIZE) // 4 * 4
        stamps = self.stamps(pages)
        parts: list[NDArray[np.void]] = []
        general = commit > 0
        for size in distinct(commit[(commit > 0) & (commit % self.function_size == 0)]):
            which = np.flatnonzero(commit == size)
            which, events = self._functions(pages, which, stamps, int(size))
            general[which] = False
            parts.append(events)
        details = Collector(self.registers)
        others = np.flatnonzero(general)
        for start in range(0, len(others), _CHUNK):
            which = others[start : start + _CHUNK]
            walk = Walk(self, np.ascontiguousarray(pages[which]), stamps[which], commit[which])
            events = walk.events(details)
            events["page"] = which[events["page"]]
            damaged[which] |= walk.damaged
            parts.append(events)
        events = concatenate(parts) if parts else np.empty(0, RAW)
        if len(parts) > 1:
            events = events.take(np.argsort(events["page"], kind="stable"))
        return Decoded(events, details.details(), damaged)

    def _functions(
        self,
        pages: NDArray[np.uint8],
        which: NDArray[np.intp],
        stamps: NDArray[np.uint64],
        commit: int,
    ) -> tuple[NDArray[np.intp], NDArray[np.void]]:
        """Return which of the pages `which` hold only function events, and their events."""
        layout = self.function_event()
        count = commit // layout.itemsize
        data = pages[which, RB_PAGE_HEADER : RB_PAGE_HEADER + commit]
        found = data.view(layout)
        kind, delta = self.split(found["header"].astype(np.uint32))
        only = (kind == layout.itemsize // 4 - 1).all(axis=1)
        only &= (found["type"] == TraceType.FN).all(axis=1)
        if not only.all():
            which, found, delta = which[only], found[only], delta[only]
        events = np.empty((len(which), count), RAW)
        np.cumsum(delta, axis=1, dtype=np.uint64, out=events["ts"])
        events["ts"] += stamps[which][:, None]
        for name in ("ip", "parent", "pid", "type", "flags", "preempt"):
            events[name] = found[name]
        events["page"] = which[:, None]
        events["offset"] = np.arange(count) * layout.itemsize
        events["size"] = layout.itemsize
        return which, events.reshape(-1)


class Walk:
    """The chain of events of some pages, flattened: word w of page p has index p * stride + w.

    Each page has one extra word, its end, whose successor is itself.
    """

    def __init__(
        self,
        layout: PageFormat,
        pages: NDArray[np.uint8],
        stamps: NDArray[np.uint64],
        commit: NDArray[np.int64],
    ) -> None:
        self.layout = layout
        self.pages = pages
        self.stamps = stamps
        count = len(pages)
        size = layout.page_size - layout.header
        words = size // 4
        self.stride = words + 1
        table = np.zeros((count, self.stride + 1), np.uint32)
        table[:, :words] = pages.view(f"{layout.order}u4")[:, layout.header // 4 :]
        self.words = np.ascontiguousarray(table[:, : self.stride]).reshape(-1)
        following = np.ascontiguousarray(table[:, 1:]).reshape(-1)
        self.kind, delta = layout.split(self.words)
        self.delta = delta.astype(np.uint64)
        self.extra = following
        long = (self.kind == _LONG_DATA) | (self.kind == _PADDING)
        sound = ~long | ((following >= 4) & (following <= size) & (following % 4 == 0))
        length = np.where(long, following // 4 + 1, self.kind + 1).astype(np.int64)
        length[self.kind >= _TIME_EXTEND] = 2
        length[~sound] = 1
        self.length = length
        index = np.arange(count * self.stride)
        word = index % self.stride
        self.end = index - word + words
        limit = np.repeat(commit // 4, self.stride)
        last = (self.kind == _PADDING) & (delta == 0)
        self.bad = ~last & (~sound | (word + length > limit))
        onward = ~last & ~self.bad & (word + length < limit)
        self.jump = np.where(onward, index + length, self.end)
        self.damaged = np.zeros(count, np.bool_)

    def chain(self) -> NDArray[np.intp]:
        """Return the indices of the words at which events begin, in order of pages."""
        jump = self.jump
        reached = np.arange(0, len(jump), self.stride)
        seen = np.zeros(len(jump), np.bool_)
        new = reached
        while len(new):
            seen[new] = True
            new = jump[reached]
            new = new[new != self.end[new]]
            reached = np.concatenate([reached, new])
            jump = jump[jump]
        return np.flatnonzero(seen)

    def times(self, at: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the time of each event of the chain `at` in ns."""
        kind = self.kind[at]
        delta = self.delta[at]
        extra = self.extra[at].astype(np.uint64) << np.uint64(_DELTA_BITS)
        delta = np.where(kind == _TIME_EXTEND, delta + extra, delta)
        delta[kind == _PADDING] = 0
        page = at // self.stride
        begins = np.ones(len(at), np.bool_)
        begins[1:] = page[1:] != page[:-1]
        absolute = kind == _TIME_STAMP
        # A time stamp has 59 bits; the higher bits come from the page's stamp.
        high = self.stamps[page] >> np.uint64(_STAMP_BITS) << np.uint64(_STAMP_BITS)
        low = (delta + extra) & np.uint64((1 << _STAMP_BITS) - 1)
        total = np.cumsum(np.where(absolute, np.uint64(0), delta), dtype=np.uint64)
        anchor = np.flatnonzero(begins | absolute)
        start = np.where(absolute, high | low, self.stamps[page] + delta)[anchor] - total[anchor]
        run = np.cumsum(begins | absolute) - 1
        times: NDArray[np.uint64] = total + start[run]
        return times

    def payloads(
        self,
    ) -> tuple[NDArray[np.intp], NDArray[np.uint64], NDArray[np.intp], NDArray[np.int64]]:
        """Return the data events: index, time in ns, index of the payload, and its bytes."""
        at = self.chain()
        bad = self.bad[at]
        self.damaged[at[bad] // self.stride] = True
        times = self.times(at)
        kind = self.kind[at]
        data = (kind < _PADDING) & ~bad
        at, kind, times = at[data], kind[data], times[data]
        payload = at + np.where(kind == _LONG_DATA, 2, 1)
        return at, times, payload, (self.length[at] - (payload - at)) * 4

    def events(self, details: Collector) -> NDArray[np.void]:
        """Return the data events, adding their details to `details`."""
        at, times, payload, size = self.payloads()
        whole = size >= _ENTRY_SIZE
        first = self.words[payload]
        shifts = (0, 16, 24) if self.layout.byteorder == "little" else (16, 8, 0)
        what = first >> np.uint32(shifts[0]) & np.uint32(0xFFFF)
        long = self.layout.pointer_size
        whole &= (what != TraceType.FN) | (size >= _ENTRY_SIZE + 2 * long)
        whole &= (what != TraceType.PRINT) | (size >= _ENTRY_SIZE + long)
        whole &= (what != TraceType.RAW_DATA) | (size >= _ENTRY_SIZE + 4)
        whole &= (what != TraceType.STACK) | (size >= _ENTRY_SIZE + long)
        switch = (what == TraceType.CTX) | (what == TraceType.WAKE)
        whole &= ~switch | (size >= _ENTRY_SIZE + _SWITCH_SIZE)
        whole &= (what != TraceType.GRAPH_ENT) | (size >= _ENTRY_SIZE + long + 4)
        whole &= (what != TraceType.GRAPH_RET) | (size >= _ENTRY_SIZE + 2 * long + 24)
        self.damaged[at[~whole] // self.stride] = True
        at, times, payload, size = at[whole], times[whole], payload[whole], size[whole]
        first, what = first[whole], what[whole]
        events = np.zeros(len(at), RAW)
        events["ts"] = times
        events["page"] = at // self.stride
        events["offset"] = at % self.stride * 4
        events["size"] = self.length[at] * 4
        # An event too short for a hit or a system call has an unknown type.
        least = np.where(what < FIRST_EVENT_ID, _ENTRY_SIZE + long, self.layout.hit_size)
        least[what >= FIRST_PROBE_EVENT_ID] = _ENTRY_SIZE
        events["type"] = np.where((what < FIRST_SYSCALL_ID) | (size >= least), what, 0)
        events["flags"] = first >> np.uint32(shifts[1]) & np.uint32(0xFF)
        events["preempt"] = first >> np.uint32(shifts[2]) & np.uint32(0xFF)
        events["pid"] = self.words[payload + 1].view(np.int32)
        function = what == TraceType.FN
        printed = what == TraceType.PRINT
        probed = what >= FIRST_PROBE_EVENT_ID
        hit = (events["type"] >= FIRST_EVENT_ID) & ~probed
        call = (events["type"] >= FIRST_SYSCALL_ID) & ~hit & ~probed
        traced = (what >= FIRST_TRACE_EVENT_ID) & (what < FIRST_SYSCALL_ID)
        traced |= probed | np.isin(what, RECORDS)
        stack = what == TraceType.STACK
        woken = what == TraceType.WAKE
        switch = woken | (what == TraceType.CTX)
        events["type"][switch] = TraceType.CTX
        opened, returned = what == TraceType.GRAPH_ENT, what == TraceType.GRAPH_RET
        named = function | printed | hit | opened | returned
        events["ip"][named] = self._long(payload[named] + 2)
        events["parent"][function] = self._long(payload[function] + 2 + long // 4)
        texts = self._texts(payload[printed], size[printed])
        events["parent"][printed] = details.add_texts(texts) + np.arange(len(texts))
        hits = self._hits(payload[hit], what[hit])
        events["parent"][hit] = details.add_hits(hits) + np.arange(len(hits))
        calls = self._calls(payload[call], what[call], size[call])
        events["parent"][call] = details.add_calls(calls) + np.arange(len(calls))
        stacks = self._stacks(payload[stack], size[stack])
        events["parent"][stack] = details.add_stacks(stacks) + np.arange(len(stacks))
        switches = self._switches(payload[switch], woken[switch])
        events["parent"][switch] = details.add_switches(switches) + np.arange(len(switches))
        records = self._records(payload[traced], what[traced], size[traced])
        events["parent"][traced] = details.add_records(records) + np.arange(len(records))
        events["parent"][opened] = self.words[payload[opened] + 2 + long // 4]
        returns = self._returns(payload[returned])
        events["parent"][returned] = details.add_returns(returns) + np.arange(len(returns))
        return events

    def _returns(self, at: NDArray[np.intp]) -> NDArray[np.void]:
        """Return the RETURN records of payloads that begin at `at`."""
        found = np.empty(len(at), RETURN)
        long = self.layout.pointer_size // 4
        found["retval"] = self._long(at + 2 + long)
        at = at + 2 + 2 * long
        found["depth"], found["overrun"] = self.words[at], self.words[at + 1]
        found["calltime"], found["rettime"] = self._pair(at + 2), self._pair(at + 4)
        return found

    def _switches(self, at: NDArray[np.intp], woken: NDArray[np.bool_]) -> NDArray[np.void]:
        """Return the SWITCHED records of payloads that begin at `at`."""
        found = np.empty(len(at), SWITCHED)
        for word, name in enumerate(("prev_pid", "next_pid", "next_cpu"), 2):
            found[name] = self.words[at + word]
        names = ("prev_prio", "prev_state", "next_prio", "next_state")
        little = self.layout.byteorder == "little"
        for byte, name in enumerate(names):
            shift = np.uint32(8 * (byte if little else 3 - byte))
            found[name] = self.words[at + 5] >> shift & np.uint32(0xFF)
        found["wakeup"] = woken
        return found

    def _calls(
        self, at: NDArray[np.intp], what: NDArray[np.uint32], size: NDArray[np.int64]
    ) -> NDArray[np.void]:
        """Return the CALL records of payloads that begin at `at` and have `size` bytes each."""
        calls = np.zeros(len(at), CALL)
        long = self.layout.pointer_size
        calls["id"] = what
        calls["nr"] = self.words[at + 2].view(np.int32)
        count = np.minimum((size - _ENTRY_SIZE) // long - 1, SYSCALL_ARGS_MAX)
        calls["count"] = count
        for column in range(SYSCALL_ARGS_MAX):
            there = count > column
            place = at[there] + _ENTRY_SIZE // 4 + (1 + column) * (long // 4)
            calls["values"][there, column] = self._long(place)
        return calls

    def _records(
        self, at: NDArray[np.intp], what: NDArray[np.uint32], size: NDArray[np.int64]
    ) -> Records:
        """Return the trace events of payloads that begin at `at` and have `size` bytes each."""
        count = (size // 4).astype(np.intp)
        starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(count)])
        word = np.arange(starts[-1]) - np.repeat(starts[:-1], count)
        words = self.words[np.repeat(at, count) + word]
        return Records(what.astype(np.uint16), starts[:-1], starts[1:], words, self.layout.order)

    def _stacks(self, at: NDArray[np.intp], size: NDArray[np.int64]) -> Stacks:
        """Return the stack traces of payloads that begin at `at` and have `size` bytes each."""
        long = self.layout.pointer_size
        room = (size - _ENTRY_SIZE) // long - 1
        count = np.clip(self.words[at + 2].view(np.int32), 0, room).astype(np.intp)
        starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(count)])
        row = np.arange(starts[-1]) - np.repeat(starts[:-1], count)
        first = np.repeat(at, count) + _ENTRY_SIZE // 4 + long // 4
        return Stacks(starts, self._long(first + row * (long // 4)))

    def _hits(self, at: NDArray[np.intp], what: NDArray[np.uint32]) -> NDArray[np.void]:
        """Return the hits of payloads that begin at `at`."""
        hits = np.empty(len(at), hit_layout(self.layout.registers))
        long = self.layout.pointer_size // 4
        parent = at + 2 + long
        hits["id"] = what
        hits["parent"] = self._long(parent)
        hits["regs"] = self._long(parent[:, None] + long * (1 + np.arange(hits["regs"].shape[1])))
        return hits

    def _long(self, at: NDArray[np.intp]) -> NDArray[np.uint64]:
        if self.layout.pointer_size == 4:
            return self.words[at].astype(np.uint64)
        return self._pair(at)

    def _pair(self, at: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return two consecutive words as one number."""
        first = self.words[at].astype(np.uint64)
        second = self.words[at + 1].astype(np.uint64)
        if self.layout.byteorder == "little":
            first, second = second, first
        joined: NDArray[np.uint64] = first << np.uint64(32) | second
        return joined

    def _texts(self, payload: NDArray[np.intp], size: NDArray[np.int64]) -> list[bytes]:
        """Return the texts of markers whose payloads begin at `payload` and have `size` bytes."""
        skip = _ENTRY_SIZE + self.layout.pointer_size
        texts = []
        for place, length in zip(payload.tolist(), size.tolist(), strict=True):
            page, word = divmod(place, self.stride)
            start = RB_PAGE_HEADER + word * 4
            text = self.pages[page, start + skip : start + length].tobytes()
            texts.append(text.partition(b"\0")[0])
        return texts
