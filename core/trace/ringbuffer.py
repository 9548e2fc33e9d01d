"""The ring buffers of a trace, one a CPU, in guest memory and written by guest code.

A buffer is a row of sub-buffer pages that lie one after the other in a region
of their own, and a descriptor (`struct ring_buffer_cpu`) in its CPU's local
page. The guest writes at `tail_page`. When it needs the page after it and that
is `head_page`, it either moves the head on, whose events are lost and counted
(overwrite), or drops what it wanted to write. The host reads: from `read` bytes
in the head page up to the tail's commit word; when it consumes, it moves `head_page`
and `read` on. Both write the head, so the host consumes, resets and resizes
only while no CPU is inside the tracer (`settle`).

The pages' address and number are what the host allocated; a guest that
scribbles over its descriptor can lose its trace, and nothing else.

Source: kernel/trace/ring_buffer.c; the files buffer_size_kb and per_cpu/cpuN/stats
in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..abi import RB_PAGE_HEADER, RB_PAGE_SIZE, RingBufferFlag
from ..errors import MemoryFault, TracefsError
from .contents import COUNTERS, Contents
from .events import EventTable
from .ringmemory import BufferMemory, Descriptor, Region
from .subbuffer import DATA_SIZE, Decoded, PageFormat
from .timetext import time_text

MINIMAL_KB = 7
"""What buffer_size_kb says before the buffers are first used: two pages."""

DEFAULT_KB = 1408
"""The size they then get."""

MIN_PAGES = 2


@dataclass(frozen=True, slots=True)
class Stats:
    """The lines of per_cpu/cpuN/stats; times in units of the trace clock."""

    entries: int
    overrun: int
    commit_overrun: int
    bytes: int
    oldest_event_ts: int
    now_ts: int
    dropped_events: int
    read_events: int

    def text(self, clock_in_ns: bool = True) -> str:
        """The file's text."""

        def time(ts: int) -> str:
            return time_text(ts, True)[1:] if clock_in_ns else str(ts)

        return (
            f"entries: {self.entries}\n"
            f"overrun: {self.overrun}\n"
            f"commit overrun: {self.commit_overrun}\n"
            f"bytes: {self.bytes}\n"
            f"oldest event ts: {time(self.oldest_event_ts)}\n"
            f"now ts: {time(self.now_ts)}\n"
            f"dropped events: {self.dropped_events}\n"
            f"read events: {self.read_events}\n"
        )


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a consuming read took."""

    table: EventTable
    lost: Mapping[int, int]
    """By CPU, the events overwritten since the last such read."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What the host knows of the buffers, for going back to a snapshot of the machine."""

    expanded: bool
    size_kb: tuple[int, ...]
    overrun_seen: tuple[int, ...]
    regions: tuple[tuple[int, int], ...]
    time_start: int


class RingBuffer:
    """The buffers of all CPUs."""

    def __init__(
        self,
        memory: BufferMemory,
        descriptors: Sequence[Descriptor],
        layout: PageFormat,
        base: int,
        *,
        now: Callable[[int], int],
        settle: Callable[[], None] = lambda: None,
        name: str = "ring_buffer",
    ) -> None:
        """Allocate minimal buffers, recording, in overwrite mode.

        `descriptors` are writable views of each CPU's `struct ring_buffer_cpu`;
        `base` is where the guest has room for `Region.limit` bytes a CPU;
        `now(cpu)` is a CPU's time; `settle` runs the guest until no CPU is in the tracer.
        """
        self.layout = layout
        self._descriptors = descriptors
        self._now = now
        self._settle = settle
        self.expanded = False
        self.resets = 0
        """How often events were thrown away: equal counters of two times may count others."""
        self.time_start = 0
        """The trace clock when all events were last thrown away; dumps count from there."""
        self._size_kb = [MINIMAL_KB] * len(descriptors)
        self._overrun_seen = [0] * len(descriptors)
        limit = Region.limit(layout.pointer_size)
        self._regions = [
            Region(memory, base + cpu * limit, limit, f"{name}{cpu}")
            for cpu in range(len(descriptors))
        ]
        self._prepare(self.cpus, MIN_PAGES)
        for cpu, descriptor in enumerate(descriptors):
            descriptor["flags"] = RingBufferFlag.RECORD_ON | RingBufferFlag.OVERWRITE
            self._take(cpu, MIN_PAGES)

    @property
    def cpus(self) -> range:
        """The CPUs' numbers."""
        return range(len(self._descriptors))

    def save(self) -> Saved:
        """The host's side of the buffers; their memory is the machine's to keep."""
        return Saved(
            self.expanded,
            tuple(self._size_kb),
            tuple(self._overrun_seen),
            tuple(region.save() for region in self._regions),
            self.time_start,
        )

    def restore(self, saved: Saved) -> None:
        """Go back, after the machine's memory has gone back to the same moment."""
        self.expanded = saved.expanded
        self._size_kb = list(saved.size_kb)
        self._overrun_seen = list(saved.overrun_seen)
        self.time_start = saved.time_start
        for region, state in zip(self._regions, saved.regions, strict=True):
            region.restore(state)

    # Flags

    def recording(self, cpu: int = 0) -> bool:
        """Whether `cpu` writes events (tracing_on)."""
        return bool(self._get(cpu, "flags") & RingBufferFlag.RECORD_ON)

    def set_recording(self, on: bool, cpu: int | None = None) -> None:
        """Let one CPU or all write events, or not."""
        self._set_flag(RingBufferFlag.RECORD_ON, on, cpu)

    @property
    def overwrite(self) -> bool:
        """Whether a full buffer gives up its oldest page; else new events are dropped."""
        return bool(self._get(0, "flags") & RingBufferFlag.OVERWRITE)

    def set_overwrite(self, on: bool) -> None:
        """Choose what a full buffer does."""
        self._set_flag(RingBufferFlag.OVERWRITE, on, None)

    def set_counter(self, on: bool) -> None:
        """Have events stamped with their number instead of the time."""
        self._set_flag(RingBufferFlag.CLOCK_COUNTER, on, None)

    def _set_flag(self, flag: RingBufferFlag, on: bool, cpu: int | None) -> None:
        for each in self._chosen(cpu):
            flags = self._get(each, "flags")
            self._descriptors[each]["flags"] = flags | flag if on else flags & ~flag

    # Sizes

    def size_kb(self, cpu: int) -> int:
        """The size of a CPU's buffer as it was asked for, KB."""
        return self._size_kb[cpu]

    def size_text(self, cpu: int | None = None) -> str:
        """buffer_size_kb, of one CPU or the common one; `X` where they differ."""
        if cpu is not None:
            return f"{self._size_kb[cpu]}\n"
        if len(set(self._size_kb)) > 1:
            return "X\n"
        return self._expanding(self._size_kb[0], DEFAULT_KB)

    def total_size_text(self) -> str:
        """buffer_total_size_kb."""
        return self._expanding(sum(self._size_kb), DEFAULT_KB * len(self._size_kb))

    def _expanding(self, size: int, expanded: int) -> str:
        return f"{size}\n" if self.expanded else f"{size} (expanded: {expanded})\n"

    def expand(self) -> None:
        """Give the buffers their normal size, if nobody chose one yet."""
        if not self.expanded:
            self.resize(DEFAULT_KB)

    def resize(self, kb: int, cpu: int | None = None) -> None:
        """Make one CPU's buffer or all `kb` KB large, at least two pages; events stay.

        A smaller buffer loses the oldest pages, which counts as overrun.
        Raises `TracefsError`: EINVAL for 0, ENOMEM for more than there is room for.
        """
        if kb <= 0:
            raise TracefsError(errno.EINVAL)
        pages = max(-(-kb * 1024 // DATA_SIZE), MIN_PAGES)
        if pages * RB_PAGE_SIZE > self._regions[0].room:
            raise TracefsError(errno.ENOMEM)
        self._settle()
        changing = [each for each in self._chosen(cpu) if self._regions[each].pages != pages]
        self._prepare(changing, pages)
        for each in changing:
            self._resize_pages(each, pages)
        self.expanded = True
        for each in self._chosen(cpu):
            self._size_kb[each] = kb

    def _prepare(self, cpus: Sequence[int], pages: int) -> None:
        """Have memory for the new buffers of all `cpus`, or of none and ENOMEM."""
        for done, each in enumerate(cpus):
            try:
                self._regions[each].prepare(pages)
            except MemoryFault as error:
                for other in cpus[:done]:
                    self._regions[other].leave()
                raise TracefsError(errno.ENOMEM) from error

    def _resize_pages(self, cpu: int, pages: int) -> None:
        """Move a CPU's events to the buffer that was prepared, the newest that fit."""
        contents = self._contents(cpu)
        self._take(cpu, pages)
        self._put(cpu, contents)

    def _contents(self, cpu: int) -> Contents:
        counters = {name: self._get(cpu, name) for name in COUNTERS}
        return Contents(self.pages(cpu), self._read(cpu), counters, self._overrun_seen[cpu])

    def _put(self, cpu: int, contents: Contents) -> None:
        """Have `contents` in a CPU's buffer instead of what is there, the newest that fit."""
        view, descriptor = self._regions[cpu].view(), self._descriptors[cpu]
        kept, read, overrun = contents.pages, contents.read, contents.counters["overrun"]
        surplus = len(kept) - len(view)
        if surplus > 0:
            overrun += sum(len(part.events) for part in self.decode(kept[:surplus], read))
            kept, read = kept[surplus:], 0
        view[:, :RB_PAGE_HEADER] = 0
        view[: len(kept)] = kept
        for name in COUNTERS:
            descriptor[name] = contents.counters[name]
        descriptor["overrun"] = overrun
        descriptor["head_page"], descriptor["tail_page"] = 0, max(len(kept) - 1, 0)
        descriptor["read"] = read
        self._overrun_seen[cpu] = contents.overrun_seen

    def exchange(self, others: Sequence[Contents]) -> tuple[Contents, ...]:
        """Have in the CPUs' buffers what `others` say, and return what was there."""
        self._settle()
        self.resets += 1
        present = tuple(self._contents(cpu) for cpu in self.cpus)
        for cpu, contents in enumerate(others):
            self._put(cpu, contents)
        return present

    def _take(self, cpu: int, pages: int) -> None:
        """Point the descriptor at the empty buffer that was prepared."""
        region = self._regions[cpu]
        region.take(pages)
        descriptor = self._descriptors[cpu]
        descriptor["pages"] = region.address
        descriptor["nr_pages"] = pages
        descriptor["head_page"] = descriptor["tail_page"] = descriptor["read"] = 0

    def reset(self, cpu: int | None = None) -> None:
        """Throw the events of one CPU or all away; the counters start again."""
        self._settle()
        self.resets += 1
        for each in self._chosen(cpu):
            self._regions[each].view()[:, :16] = 0
            descriptor = self._descriptors[each]
            for name in (
                *("head_page", "tail_page", "read", "entries", "entries_bytes", "overrun"),
                *("dropped", "commit_overrun", "read_events"),
            ):
                descriptor[name] = 0
            self._overrun_seen[each] = 0
        if cpu is None:
            self.time_start = min(map(self._now, self.cpus))

    # Counters

    def in_buffer(self, cpu: int | None = None) -> int:
        """Events that a read would find."""
        return sum(
            max(
                self._get(each, "entries")
                - self._get(each, "overrun")
                - self._get(each, "read_events"),
                0,
            )
            for each in self._chosen(cpu)
        )

    def lost(self, present: int, cpu: int | None = None) -> int:
        """Events overwritten before anyone consumed them, when a read finds `present`.

        As `overrun`, but true also where the guest stopped in the middle of a
        turn to the next page, with the page that gives way counted and still there.
        """
        entered = sum(
            self._get(each, "entries") - self._get(each, "read_events")
            for each in self._chosen(cpu)
        )
        return max(entered - present, 0)

    def overrun(self, cpu: int | None = None) -> int:
        """Events that were overwritten before anyone consumed them."""
        return sum(self._get(each, "overrun") for each in self._chosen(cpu))

    def dropped(self, cpu: int | None = None) -> int:
        """Events not written because the buffer was full."""
        return sum(self._get(each, "dropped") for each in self._chosen(cpu))

    def written(self, cpu: int | None = None) -> int:
        """`in_buffer` and `overrun`: the second number of the trace's header."""
        return self.in_buffer(cpu) + self.overrun(cpu)

    def unread_bytes(self, cpu: int) -> int:
        """Bytes of events, headers included, that were not consumed."""
        commits = np.minimum(self.layout.commits(self.pages(cpu)), DATA_SIZE)
        return max(int(commits.sum()) - self._read(cpu), 0)

    def stats(self, cpu: int) -> Stats:
        """The numbers of per_cpu/cpuN/stats."""
        times = [part.events["ts"] for part in self._parts(cpu) if len(part.events)]
        present = sum(map(len, times))
        oldest = times[0] if times else [0]
        return Stats(
            entries=present,
            overrun=self.lost(present, cpu),
            commit_overrun=self._get(cpu, "commit_overrun"),
            bytes=self.unread_bytes(cpu),
            oldest_event_ts=int(oldest[0]),
            now_ts=self._now(cpu),
            dropped_events=self._get(cpu, "dropped"),
            read_events=self._get(cpu, "read_events"),
        )

    # Reading

    def pages(self, cpu: int) -> NDArray[np.uint8]:
        """A copy of the pages from head to tail, shape (p, 4096); the first may be partly read."""
        view = self._regions[cpu].view()
        head, count = self._used(cpu)
        copy: NDArray[np.uint8] = view[(head + np.arange(count)) % len(view)]
        return copy

    def head(self, cpu: int) -> tuple[int, int]:
        """The index of the first of `pages`, and how many bytes of its data were consumed."""
        return self._used(cpu)[0], self._read(cpu)

    def used_pages(self, cpu: int) -> int:
        """How many pages there are from head to tail."""
        return self._used(cpu)[1]

    def size_pages(self, cpu: int) -> int:
        """How many pages the buffer has."""
        return self._regions[cpu].pages

    def events(self, cpu: int | None = None) -> EventTable:
        """What is in the buffers of one CPU or all; it stays there."""
        return EventTable.merge(
            (each, part) for each in self._chosen(cpu) for part in self._parts(each)
        )

    def consume(self, cpu: int | None = None, limit: int | None = None) -> Consumed:
        """Take the events out, the oldest `limit` of them where one is given."""
        self._settle()
        lost = {}
        for each in self._chosen(cpu):
            overrun = self._get(each, "overrun")
            if overrun > self._overrun_seen[each]:
                lost[each] = overrun - self._overrun_seen[each]
            self._overrun_seen[each] = overrun
        if limit is None:
            table = self.events(cpu)
            for each in self._chosen(cpu):
                self._advance_to_tail(each, int((table.events["cpu"] == each).sum()))
            return Consumed(table, lost)
        parts = {each: list(self._first_parts(each, limit)) for each in self._chosen(cpu)}
        table = EventTable.merge((each, part) for each, some in parts.items() for part in some)
        table = table.take(slice(0, limit))
        for each, some in parts.items():
            self._advance(each, some, int((table.events["cpu"] == each).sum()))
        return Consumed(table, lost)

    def _advance_to_tail(self, cpu: int, taken: int) -> None:
        descriptor = self._descriptors[cpu]
        head, count = self._used(cpu)
        pages = self._regions[cpu].view()
        tail = (head + count - 1) % len(pages)
        descriptor["head_page"] = tail
        descriptor["read"] = int(self.layout.commits(pages[tail : tail + 1])[0])
        descriptor["read_events"] += np.uint64(taken)

    def _advance(self, cpu: int, parts: Sequence[Decoded], taken: int) -> None:
        """Move the head behind the first `taken` events of `parts`, the buffer's first pages."""
        if not taken:
            return
        events = np.concatenate([part.events for part in parts])
        last = events[taken - 1]
        head, _ = self._used(cpu)
        descriptor = self._descriptors[cpu]
        descriptor["head_page"] = (head + int(last["page"])) % self._regions[cpu].pages
        descriptor["read"] = int(last["offset"]) + int(last["size"])
        descriptor["read_events"] += np.uint64(taken)

    def _first_parts(self, cpu: int, limit: int) -> Iterator[Decoded]:
        """Decoded pages from the head on until they hold `limit` events."""
        pages, read = self.pages(cpu), self._read(cpu)
        found = 0
        start, step = 0, 4
        while start < len(pages) and found < limit:
            (part,) = self.decode(pages[start : start + step], 0 if start else read)
            part.events["page"] += start
            found += len(part.events)
            start, step = start + step, 64
            yield part

    def _parts(self, cpu: int) -> Iterator[Decoded]:
        return self.decode(self.pages(cpu), self._read(cpu))

    def decode(self, pages: NDArray[np.uint8], read: int) -> Iterator[Decoded]:
        """The events of `pages`, without those in the first `read` bytes of the first page."""
        for number, part in enumerate(self.layout.decode_all(pages)):
            if number == 0 and read:
                events = part.events
                unread = events[(events["page"] > 0) | (events["offset"] >= read)]
                part = Decoded(unread, part.details, part.damaged)
            yield part

    def _used(self, cpu: int) -> tuple[int, int]:
        """The head's index, and how many pages there are from it to the tail."""
        total = self._regions[cpu].pages
        head, tail = self._get(cpu, "head_page"), self._get(cpu, "tail_page")
        if head >= total or tail >= total:
            return 0, 0
        return head, (tail - head) % total + 1

    def _read(self, cpu: int) -> int:
        return min(self._get(cpu, "read"), DATA_SIZE)

    def _get(self, cpu: int, name: str) -> int:
        return int(self._descriptors[cpu][name])

    def _chosen(self, cpu: int | None) -> Sequence[int]:
        return self.cpus if cpu is None else (cpu,)
