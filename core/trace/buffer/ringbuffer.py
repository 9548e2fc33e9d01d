"""The ring buffers of a trace, one for each CPU, in guest memory and written by guest code.

A buffer consists of consecutive sub-buffer pages in a region of its own, and a descriptor
(`struct ring_buffer_cpu`) in the local page of its CPU. The guest writes at `tail_page`. If
the next page is `head_page`, it either advances the head, whose events are lost and counted
(overwrite mode), or drops the new event. The host reads from `read` bytes in the head page
up to the commit word of the tail page. To consume, it advances `head_page` and `read`. Both
sides write the head, so the host consumes, resets and resizes only while no CPU is inside
the tracer (`settle`).

The host uses the address and the number of pages that it allocated, not the descriptor's: a
guest that overwrites its descriptor loses its trace, but nothing else.

Source: kernel/trace/ring_buffer.c; the files buffer_size_kb and per_cpu/cpuN/stats
in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_HEADER, RB_PAGE_SIZE, RingBufferFlag
from ...errors import MemoryFault, TracefsError
from ...memento import Restore, attributes, in_order
from .contents import COUNTERS, Contents
from .events import EventTable
from .pool import MemoryPool, PoolRegion
from .rawpages import tell_lost, unread_pages
from .ringmemory import BufferMemory, Descriptors, Region
from .subbuffer import DATA_SIZE, Decoded, PageFormat
from .timetext import time_text

MINIMAL_KB = 7
"""Size that buffer_size_kb reports before the buffers are first used: two pages."""

DEFAULT_KB = 1408
"""Size of each buffer from the first use on."""

MIN_PAGES = 2

_CLOCK = (
    RingBufferFlag.CLOCK_COUNTER,
    RingBufferFlag.CLOCK_GLOBAL,
    RingBufferFlag.CLOCK_JIFFIES,
)


@dataclass(frozen=True, slots=True)
class Stats:
    """The numbers of per_cpu/cpuN/stats; times in units of the trace clock."""

    entries: int
    overrun: int
    commit_overrun: int
    bytes: int
    oldest_event_ts: int
    now_ts: int
    dropped_events: int
    read_events: int

    def text(self, clock_in_ns: bool = True) -> str:
        """Return the text of the file."""

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
    """The result of a consuming read."""

    table: EventTable
    lost: Mapping[int, int]
    """Number of events, by CPU, overwritten since the previous consuming read."""


class RingBuffer:
    """The buffers of all CPUs."""

    def __init__(
        self,
        memory: BufferMemory,
        descriptors: Descriptors,
        layout: PageFormat,
        place: int | MemoryPool,
        *,
        now: Callable[[int], int],
        settle: Callable[[], None] = lambda: None,
        name: str = "ring_buffer",
    ) -> None:
        """Allocate buffers of minimal size that record in overwrite mode.

        `descriptors` are writable views of each CPU's `struct ring_buffer_cpu`; `place` is
        the guest address of `Region.limit` free bytes for each CPU, or the pool to take pages from;
        `now(cpu)` returns a CPU's time; `settle` runs the guest until no CPU is in the tracer.
        """
        self.layout = layout
        self._descriptors = descriptors
        self._now = now
        self.settle = settle
        """Runs the guest until no CPU is inside the tracer."""
        self.expanded = False
        self.resets = 0
        """Number of resets: equal counters after a reset do not mean equal events."""
        self.time_start = 0
        """Trace clock at the last reset of all CPUs; times in dumps count from here."""
        self._size_kb = [MINIMAL_KB] * len(descriptors)
        self._overrun_seen = [0] * len(descriptors)
        limit = Region.limit(layout.pointer_size)
        self._regions: list[Region | PoolRegion] = [
            Region(memory, place + cpu * limit, limit, f"{name}{cpu}")
            if isinstance(place, int)
            else PoolRegion(place, f"{name}{cpu}")
            for cpu in range(len(descriptors))
        ]
        self._prepare(self.cpus, MIN_PAGES)
        for cpu in self.cpus:
            descriptors[cpu]["flags"] = RingBufferFlag.RECORD_ON | RingBufferFlag.OVERWRITE
            self._take(cpu, MIN_PAGES)

    @property
    def cpus(self) -> range:
        """The numbers of the CPUs."""
        return range(len(self._descriptors))

    def save(self) -> Restore:
        """Return a function that restores the host's part, after the machine's memory."""
        kept = attributes(self, "expanded", "time_start", "_size_kb", "_overrun_seen")
        return in_order(kept, *(region.save() for region in self._regions), self._replaced)

    def _replaced(self) -> None:
        """Note that equal counters no longer mean equal events."""
        self.resets += 1

    # Flags

    def recording(self, cpu: int = 0) -> bool:
        """Return whether `cpu` writes events (tracing_on)."""
        return bool(self._get(cpu, "flags") & RingBufferFlag.RECORD_ON)

    def set_recording(self, on: bool, cpu: int | None = None) -> None:
        """Switch the writing of events on or off, for one CPU or all."""
        self._set_flag(RingBufferFlag.RECORD_ON, on, cpu)

    def set_overwrite(self, on: bool) -> None:
        """Choose what a full buffer does: overwrite old events, or drop new ones."""
        self._set_flag(RingBufferFlag.OVERWRITE, on, None)

    def set_clock(self, flags: RingBufferFlag) -> None:
        """Stamp events with the time of another clock; `flags` are bits of `_CLOCK`."""
        for flag in _CLOCK:
            self._set_flag(flag, bool(flags & flag), None)

    def set_record_cmd(self, on: bool) -> None:
        """Choose whether the names of tasks are recorded after an event (saved_cmdlines)."""
        self._set_flag(RingBufferFlag.RECORD_CMD, on, None)

    def set_record_tgid(self, on: bool) -> None:
        """Choose whether the thread groups of tasks are recorded after an event (saved_tgids)."""
        self._set_flag(RingBufferFlag.RECORD_TGID, on, None)

    def set_function_off(self, off: bool) -> None:
        """Make the function tracer ignore calls from sites that stay patched, or not."""
        self._set_flag(RingBufferFlag.FUNCTION_OFF, off, None)

    def _set_flag(self, flag: RingBufferFlag, on: bool, cpu: int | None) -> None:
        for each in self._chosen(cpu):
            flags = self._get(each, "flags")
            self._descriptors[each]["flags"] = flags | flag if on else flags & ~flag

    # Sizes

    def size_text(self, cpu: int | None = None) -> str:
        """Return the text of buffer_size_kb, of one CPU or of all; `X` if sizes differ."""
        if cpu is not None:
            return f"{self._size_kb[cpu]}\n"
        if len(set(self._size_kb)) > 1:
            return "X\n"
        return self._expanding(self._size_kb[0], DEFAULT_KB)

    def total_size_text(self) -> str:
        """Return the text of buffer_total_size_kb."""
        return self._expanding(sum(self._size_kb), DEFAULT_KB * len(self._size_kb))

    def _expanding(self, size: int, expanded: int) -> str:
        return f"{size}\n" if self.expanded else f"{size} (expanded: {expanded})\n"

    def expand(self) -> None:
        """Give the buffers their default size, unless a size has been set."""
        if not self.expanded:
            self.resize(DEFAULT_KB)

    def resize(self, kb: int, cpu: int | None = None) -> None:
        """Resize the buffer of one CPU or all to `kb` KB, at least two pages, keeping events.

        A smaller buffer loses its oldest pages, which counts as overrun.
        Raises `TracefsError`: EINVAL for 0, ENOMEM if memory is short.
        """
        if kb <= 0:
            raise TracefsError(errno.EINVAL)
        pages = max(-(-kb * 1024 // DATA_SIZE), MIN_PAGES)
        if pages * RB_PAGE_SIZE > self._regions[0].room:
            raise TracefsError(errno.ENOMEM)
        self.settle()
        changing = [each for each in self._chosen(cpu) if self._regions[each].pages != pages]
        self._prepare(changing, pages)
        for each in changing:
            self._resize_pages(each, pages)
        self.expanded = True
        for each in self._chosen(cpu):
            self._size_kb[each] = kb

    def free(self) -> None:
        """Drop all events and shrink all buffers to the minimal size (`free_buffer`)."""
        self.settle()
        self._prepare(self.cpus, MIN_PAGES)
        for each in self.cpus:
            self._resize_pages(each, MIN_PAGES)
        self.expanded = True
        self._size_kb = [0] * len(self._size_kb)

    def release(self) -> None:
        """Free all memory; the buffers must not be used again."""
        for region in self._regions:
            region.free()

    def filled(self, cpu: int, percent: int) -> bool:
        """Return whether `percent` of the pages of `cpu` are in use (`full_hit`)."""
        return 100 * self._used(cpu)[1] >= percent * self._regions[cpu].pages

    def whole_page(self, cpu: int) -> bool:
        """Return whether `cpu` writes to a later page than the next to be read."""
        return self._used(cpu)[1] > 1

    def _prepare(self, cpus: Sequence[int], pages: int) -> None:
        """Map new buffers for all `cpus`, or for none and raise ENOMEM."""
        for done, each in enumerate(cpus):
            try:
                self._regions[each].prepare(pages)
            except MemoryFault as error:
                for other in cpus[:done]:
                    self._regions[other].leave()
                raise TracefsError(errno.ENOMEM) from error

    def _resize_pages(self, cpu: int, pages: int) -> None:
        """Move the newest events of a CPU, as many as fit, to the prepared buffer."""
        contents = self._contents(cpu)
        self._take(cpu, pages)
        self._put(cpu, contents)

    def _contents(self, cpu: int) -> Contents:
        counters = {name: self._get(cpu, name) for name in COUNTERS}
        return Contents(self.pages(cpu), self._read(cpu), counters, self._overrun_seen[cpu])

    def _put(self, cpu: int, contents: Contents) -> None:
        """Replace the events of a CPU's buffer with the newest of `contents`, as many as fit."""
        view, descriptor = self._regions[cpu].view(), self._descriptors[cpu]
        kept, read, overrun = contents.pages, contents.read, contents.counters["overrun"]
        unnamed = self._get(cpu, "entries") & 0xFFFF_FFFF != self._get(cpu, "named")
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
        descriptor["write"] = descriptor["committing"] = 0
        # As before, the next task switch records the names if events were written since the last.
        descriptor["named"] = (contents.counters["entries"] - unnamed) & 0xFFFF_FFFF
        self._overrun_seen[cpu] = contents.overrun_seen

    def exchange(self, others: Sequence[Contents]) -> tuple[Contents, ...]:
        """Replace the contents of all buffers by `others`, and return the old contents."""
        self.settle()
        self.resets += 1
        present = tuple(self._contents(cpu) for cpu in self.cpus)
        for cpu, contents in enumerate(others):
            self._put(cpu, contents)
        return present

    def exchange_cpu(self, cpu: int, other: Contents) -> Contents:
        """Replace the contents of one buffer by `other`, and return the old contents.

        Call it only while `cpu` waits for the exchange, between two of its events.
        """
        self.resets += 1
        present = self._contents(cpu)
        self._put(cpu, other)
        return present

    def _take(self, cpu: int, pages: int) -> None:
        """Point the descriptor at the prepared, empty buffer."""
        region = self._regions[cpu]
        region.take(pages)
        descriptor = self._descriptors[cpu]
        descriptor["pages"] = region.address
        descriptor["nr_pages"] = pages
        descriptor["head_page"] = descriptor["tail_page"] = descriptor["read"] = 0
        descriptor["write"] = descriptor["committing"] = 0

    def reset(self, cpu: int | None = None) -> None:
        """Discard the events of one CPU or all, and reset the counters."""
        self.settle()
        self.resets += 1
        for each in self._chosen(cpu):
            self._regions[each].view()[:, :16] = 0
            descriptor = self._descriptors[each]
            for name in (
                *("head_page", "tail_page", "read", "entries", "overrun"),
                *("dropped", "commit_overrun", "read_events", "named", "write", "committing"),
            ):
                descriptor[name] = 0
            self._overrun_seen[each] = 0
        if cpu is None:
            self.time_start = min(map(self._now, self.cpus))

    # Counters

    def in_buffer(self, cpu: int | None = None) -> int:
        """Return the number of events that a read would find."""
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
        """Return how many events were overwritten unread, if a read finds `present`.

        Like `overrun`, but also correct if the guest stopped while it advanced to the next
        page, when the page to be overwritten is already counted and still there. Events that
        the guest has reserved but not committed are counted, too, and not lost.
        """
        entered = sum(
            self._get(each, "entries")
            - self._get(each, "read_events")
            - (self._get(each, "committing") if self._get(each, "write") else 0)
            for each in self._chosen(cpu)
        )
        return max(entered - present, 0)

    def overrun(self, cpu: int | None = None) -> int:
        """Return the number of events that were overwritten unread."""
        return sum(self._get(each, "overrun") for each in self._chosen(cpu))

    def dropped(self, cpu: int | None = None) -> int:
        """Return the number of events dropped because the buffer was full."""
        return sum(self._get(each, "dropped") for each in self._chosen(cpu))

    def written(self, cpu: int | None = None) -> int:
        """Return `in_buffer` plus `overrun`: the second number in the trace's header."""
        return self.in_buffer(cpu) + self.overrun(cpu)

    def unread_bytes(self, cpu: int) -> int:
        """Return the bytes of unread events, headers included."""
        commits = np.minimum(self.layout.commits(self.pages(cpu)), DATA_SIZE)
        return max(int(commits.sum()) - self._read(cpu), 0)

    def stats(self, cpu: int) -> Stats:
        """Return the numbers of per_cpu/cpuN/stats."""
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
        """Return a copy of the pages from head to tail, shape (p, 4096)."""
        view = self._regions[cpu].view()
        head, count = self._used(cpu)
        copy: NDArray[np.uint8] = view[(head + np.arange(count)) % len(view)]
        return copy

    def head(self, cpu: int) -> tuple[int, int]:
        """Return the index of the head page, and how many bytes of its data have been consumed."""
        return self._used(cpu)[0], self._read(cpu)

    def used_pages(self, cpu: int) -> int:
        """Return the number of pages from head to tail."""
        return self._used(cpu)[1]

    def size_pages(self, cpu: int) -> int:
        """Return the number of pages of the buffer."""
        return self._regions[cpu].pages

    def events(self, cpu: int | None = None) -> EventTable:
        """Return the events in the buffers of one CPU or all, without consuming them."""
        return EventTable.merge(
            (each, part) for each in self._chosen(cpu) for part in self._parts(each)
        )

    def consume(self, cpu: int | None = None, limit: int | None = None) -> Consumed:
        """Take the events out, or only the oldest `limit` of them."""
        self.settle()
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

    def consume_page(self, cpu: int) -> bytes:
        """Take the unread events of one page out, as a page for readers; b"" if there are none."""
        self.settle()
        overrun = self._get(cpu, "overrun")
        while self.in_buffer(cpu):
            head, count = self._used(cpu)
            page, read = self._regions[cpu].view()[head : head + 1], self._read(cpu)
            found = unread_pages(self.layout, page, read)
            taken = sum(len(part.events) for part in self.decode(page, read))
            descriptor = self._descriptors[cpu]
            if count > 1:
                descriptor["head_page"] = (head + 1) % self._regions[cpu].pages
                descriptor["read"] = 0
            else:
                descriptor["read"] = int(self.layout.commits(page)[0])
            descriptor["read_events"] += np.uint64(taken)
            if len(found):
                lost, self._overrun_seen[cpu] = overrun - self._overrun_seen[cpu], overrun
                if lost > 0:
                    tell_lost(self.layout, found[0], lost)
                data: bytes = found[0].tobytes()
                return data
            if count <= 1:
                break
        return b""

    def _advance_to_tail(self, cpu: int, taken: int) -> None:
        descriptor = self._descriptors[cpu]
        head, count = self._used(cpu)
        pages = self._regions[cpu].view()
        tail = (head + count - 1) % len(pages)
        descriptor["head_page"] = tail
        descriptor["read"] = int(self.layout.commits(pages[tail : tail + 1])[0])
        descriptor["read_events"] += np.uint64(taken)

    def _advance(self, cpu: int, parts: Sequence[Decoded], taken: int) -> None:
        """Advance the head past the first `taken` events of `parts`, the buffer's first pages."""
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
        """Generate decoded pages from the head on until they contain `limit` events."""
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
        """Generate the events of `pages`, without those in the first `read` bytes."""
        for number, part in enumerate(self.layout.decode_all(pages)):
            if number == 0 and read:
                events = part.events
                unread = events[(events["page"] > 0) | (events["offset"] >= read)]
                part = Decoded(unread, part.details, part.damaged)
            yield part

    def _used(self, cpu: int) -> tuple[int, int]:
        """Return the index of the head page, and the number of pages from it to the tail."""
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
