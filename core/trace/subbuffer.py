"""Events in sub-buffer pages, decoded many pages at once.

A page is a u64 time stamp, the commit word (bytes of data that count) and data
at 16. An event starts with a u32: 5 bits type_len and 27 bits time delta, the
bit fields from the low end on a little-endian guest and from the high end on a
big-endian one. type_len 1..28 is the payload's length in words; 0 puts
length + 4 into the next word; 29 is padding (delta 0: to the end of the page,
else its length + 4 in the next word); 30 extends the next event's delta by the
next word, shifted by 27; 31 is an absolute time stamp of 59 bits. A payload is
`struct trace_entry`, then for a function two longs, ip and parent_ip, and for a hit
of an fprobe these and the registers. Source: include/linux/ring_buffer.h,
kernel/trace/ring_buffer.c, arches/guest/include/machine.h and tracer.h.

The guest may have written anything: every length is checked against the
commit word, a page is read up to the first event that makes no sense, and is
then counted as damaged. Each event's place depends on the one before it; in a
page of nothing but functions they are equally far apart, in any other the
chain is followed for all pages at once by doubling: from the events known, and
the jump over 2**i events, follow the next 2**i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..abi import FIRST_EVENT_ID, RB_PAGE_HEADER, RB_PAGE_SIZE, TraceType

DATA_SIZE = RB_PAGE_SIZE - RB_PAGE_HEADER
"""Bytes of events a page holds."""

COMMIT_MASK = 0xF_FFFF
"""Bits of the commit word that count bytes; the kernel keeps flags above them."""

_WORDS = DATA_SIZE // 4
_HEADER_WORDS = RB_PAGE_HEADER // 4
_ENTRY_SIZE = 8  # struct trace_entry
_DELTA_BITS = 27
_STAMP_BITS = 59
_PART = 512
_CHUNK = 128  # pages walked at once: a walk keeps ten words for each of theirs

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
"""An event as decoded: `page` is an index of the pages given, `offset` and `size` are bytes
of the page's data, headers included. A print event has the index of its text in `parent`, a hit
that of its row in the table of hits."""


def hit_layout(registers: int) -> np.dtype[np.void]:
    """A hit of an fprobe: the fprobe's id, the caller, and so many `regs`."""
    return np.dtype([("id", "u2"), ("parent", "u8"), ("regs", "u8", (registers,))])


def concatenate(tables: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """One table of at least one, all of one packed dtype; numpy's own goes field by field."""
    if len(tables) == 1:
        return tables[0]
    dtype = tables[0].dtype
    rows = np.dtype((np.void, dtype.itemsize))
    joined: NDArray[np.void] = np.concatenate([table.view(rows) for table in tables]).view(dtype)
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The events of some pages in their order: RAW records, shape (n,)."""

    events: NDArray[np.void]
    texts: tuple[bytes, ...]
    """What the print events say, up to their zero byte."""
    hits: NDArray[np.void]
    """The hits among them, in order: `hit_layout` records."""
    damaged: NDArray[np.bool_]
    """For each page whether it ended before its commit word says."""


@dataclass(frozen=True, slots=True)
class PageFormat:
    """How a guest lays out its pages: byte order (`little`, `big`) and bytes of a long."""

    byteorder: str
    pointer_size: int
    registers: int = 0
    """How many a hit of an fprobe has, of a long each (`Abi.pt_regs`)."""

    @property
    def function_size(self) -> int:
        """Bytes of a function event, its header included."""
        return 4 + _ENTRY_SIZE + 2 * self.pointer_size

    @property
    def hit_size(self) -> int:
        """Bytes of a hit's payload."""
        return _ENTRY_SIZE + (2 + self.registers) * self.pointer_size

    @property
    def order(self) -> str:
        """As numpy writes it."""
        return "<" if self.byteorder == "little" else ">"

    def function_event(self) -> np.dtype[np.void]:
        """A function event as it lies in the page."""
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
        """The time stamp of each of `pages`, shape (p, 4096)."""
        words = np.ascontiguousarray(pages[:, :8]).view(f"{self.order}u8")
        return words.reshape(-1).astype(np.uint64)

    def commits(self, pages: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The bytes of data each of `pages` claims to hold."""
        words = np.ascontiguousarray(pages[:, 8:16]).view(f"{self.order}u8")
        return (words.reshape(-1) & np.uint64(COMMIT_MASK)).astype(np.int64)

    def split(self, words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """type_len and time delta of event headers."""
        if self.byteorder == "little":
            return words & np.uint32(31), words >> np.uint32(5)
        return words >> np.uint32(_DELTA_BITS), words & np.uint32((1 << _DELTA_BITS) - 1)

    def decode_all(self, pages: NDArray[np.uint8]) -> Iterator[Decoded]:
        """Decode any number of pages, some at a time: each part's tables stay in the cache."""
        for start in range(0, len(pages), _PART):
            yield self.decode(pages[start : start + _PART])

    def decode(self, pages: NDArray[np.uint8]) -> Decoded:
        """Decode `pages`, shape (p, 4096), of any content."""
        commit = self.commits(pages)
        damaged = (commit > DATA_SIZE) | (commit % 4 != 0)
        commit = np.minimum(commit, DATA_SIZE) // 4 * 4
        stamps = self.stamps(pages)
        parts: list[NDArray[np.void]] = []
        general = commit > 0
        for size in np.unique(commit[(commit > 0) & (commit % self.function_size == 0)]):
            which = np.flatnonzero(commit == size)
            which, events = self._functions(pages, which, stamps, int(size))
            general[which] = False
            parts.append(events)
        texts: list[bytes] = []
        hits = [np.empty(0, hit_layout(self.registers))]
        others = np.flatnonzero(general)
        for start in range(0, len(others), _CHUNK):
            which = others[start : start + _CHUNK]
            walk = _Walk(self, np.ascontiguousarray(pages[which]), stamps[which], commit[which])
            events = walk.events(texts, hits)
            events["page"] = which[events["page"]]
            damaged[which] |= walk.damaged
            parts.append(events)
        events = concatenate(parts) if parts else np.empty(0, RAW)
        if len(parts) > 1:
            events = events.take(np.argsort(events["page"], kind="stable"))
        return Decoded(events, tuple(texts), concatenate(hits), damaged)

    def _functions(
        self,
        pages: NDArray[np.uint8],
        which: NDArray[np.intp],
        stamps: NDArray[np.uint64],
        commit: int,
    ) -> tuple[NDArray[np.intp], NDArray[np.void]]:
        """Those of the pages `which` that hold only function events, and these events."""
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


class _Walk:
    """The chain of events of some pages, flattened: word w of page p has index p * stride + w.

    One word more than the data stands for the end; it leads to itself.
    """

    stride = _WORDS + 1

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
        table = np.zeros((count, self.stride + 1), np.uint32)
        table[:, :_WORDS] = pages.view(f"{layout.order}u4")[:, _HEADER_WORDS:]
        self.words = np.ascontiguousarray(table[:, : self.stride]).reshape(-1)
        following = np.ascontiguousarray(table[:, 1:]).reshape(-1)
        self.kind, delta = layout.split(self.words)
        self.delta = delta.astype(np.uint64)
        self.extra = following
        long = (self.kind == _LONG_DATA) | (self.kind == _PADDING)
        sound = ~long | ((following >= 4) & (following <= DATA_SIZE) & (following % 4 == 0))
        length = np.where(long, following // 4 + 1, self.kind + 1).astype(np.int64)
        length[self.kind >= _TIME_EXTEND] = 2
        length[~sound] = 1
        self.length = length
        index = np.arange(count * self.stride)
        word = index % self.stride
        self.end = index - word + _WORDS
        limit = np.repeat(commit // 4, self.stride)
        last = (self.kind == _PADDING) & (delta == 0)
        self.bad = ~last & (~sound | (word + length > limit))
        onward = ~last & ~self.bad & (word + length < limit)
        self.jump = np.where(onward, index + length, self.end)
        self.damaged = np.zeros(count, np.bool_)

    def chain(self) -> NDArray[np.intp]:
        """Indices of the words at which events begin, page by page in order."""
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
        """The time of each event of the chain `at`, ns."""
        kind = self.kind[at]
        delta = self.delta[at]
        extra = self.extra[at].astype(np.uint64) << np.uint64(_DELTA_BITS)
        delta = np.where(kind == _TIME_EXTEND, delta + extra, delta)
        delta[kind == _PADDING] = 0
        page = at // self.stride
        begins = np.ones(len(at), np.bool_)
        begins[1:] = page[1:] != page[:-1]
        absolute = kind == _TIME_STAMP
        # A stamp has 59 bits; the rest is the page's.
        high = self.stamps[page] >> np.uint64(_STAMP_BITS) << np.uint64(_STAMP_BITS)
        low = (delta + extra) & np.uint64((1 << _STAMP_BITS) - 1)
        total = np.cumsum(np.where(absolute, np.uint64(0), delta), dtype=np.uint64)
        anchor = np.flatnonzero(begins | absolute)
        start = np.where(absolute, high | low, self.stamps[page] + delta)[anchor] - total[anchor]
        run = np.cumsum(begins | absolute) - 1
        times: NDArray[np.uint64] = total + start[run]
        return times

    def events(self, texts: list[bytes], hits: list[NDArray[np.void]]) -> NDArray[np.void]:
        """The data events; what print events say is appended to `texts`, hits to `hits`."""
        at = self.chain()
        bad = self.bad[at]
        self.damaged[at[bad] // self.stride] = True
        times = self.times(at)
        kind = self.kind[at]
        data = (kind < _PADDING) & ~bad
        at, kind, times = at[data], kind[data], times[data]
        payload = at + np.where(kind == _LONG_DATA, 2, 1)
        size = (self.length[at] - (payload - at)) * 4
        whole = size >= _ENTRY_SIZE
        first = self.words[payload]
        shifts = (0, 16, 24) if self.layout.byteorder == "little" else (16, 8, 0)
        what = first >> np.uint32(shifts[0]) & np.uint32(0xFFFF)
        long = self.layout.pointer_size
        whole &= (what != TraceType.FN) | (size >= _ENTRY_SIZE + 2 * long)
        whole &= (what != TraceType.PRINT) | (size >= _ENTRY_SIZE + long)
        self.damaged[at[~whole] // self.stride] = True
        at, times, payload, size = at[whole], times[whole], payload[whole], size[whole]
        first, what = first[whole], what[whole]
        events = np.zeros(len(at), RAW)
        events["ts"] = times
        events["page"] = at // self.stride
        events["offset"] = at % self.stride * 4
        events["size"] = self.length[at] * 4
        # What is too short for a hit is nothing known.
        events["type"] = np.where((what < FIRST_EVENT_ID) | (size >= self.layout.hit_size), what, 0)
        events["flags"] = first >> np.uint32(shifts[1]) & np.uint32(0xFF)
        events["preempt"] = first >> np.uint32(shifts[2]) & np.uint32(0xFF)
        events["pid"] = self.words[payload + 1].view(np.int32)
        function = what == TraceType.FN
        printed = what == TraceType.PRINT
        hit = events["type"] >= FIRST_EVENT_ID
        named = function | printed | hit
        events["ip"][named] = self._long(payload[named] + 2)
        events["parent"][function] = self._long(payload[function] + 2 + long // 4)
        self._texts(events, payload, size, printed, texts)
        known = sum(map(len, hits))
        events["parent"][hit] = known + np.arange(int(hit.sum()))
        hits.append(self._hits(payload[hit], what[hit]))
        return events

    def _hits(self, at: NDArray[np.intp], what: NDArray[np.uint32]) -> NDArray[np.void]:
        """The hits whose payloads begin at `at`."""
        hits = np.empty(len(at), hit_layout(self.layout.registers))
        long = self.layout.pointer_size // 4
        parent = at + 2 + long
        hits["id"] = what
        hits["parent"] = self._long(parent)
        hits["regs"] = self._long(parent[:, None] + long * (1 + np.arange(hits["regs"].shape[1])))
        return hits

    def _long(self, at: NDArray[np.intp]) -> NDArray[np.uint64]:
        first = self.words[at].astype(np.uint64)
        if self.layout.pointer_size == 4:
            return first
        second = self.words[at + 1].astype(np.uint64)
        if self.layout.byteorder == "little":
            first, second = second, first
        joined: NDArray[np.uint64] = first << np.uint64(32) | second
        return joined

    def _texts(
        self,
        events: NDArray[np.void],
        payload: NDArray[np.intp],
        size: NDArray[np.int64],
        printed: NDArray[np.bool_],
        texts: list[bytes],
    ) -> None:
        skip = _ENTRY_SIZE + self.layout.pointer_size
        events["parent"][printed] = len(texts) + np.arange(int(printed.sum()))
        for place, length in zip(payload[printed].tolist(), size[printed].tolist(), strict=True):
            page, word = divmod(place, self.stride)
            start = RB_PAGE_HEADER + word * 4
            text = self.pages[page, start + skip : start + length].tobytes()
            texts.append(text.partition(b"\0")[0])
