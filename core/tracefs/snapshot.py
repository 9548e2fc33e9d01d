"""snapshot: a spare buffer that is swapped with the one in use.

The host holds the spare buffer. A swap exchanges its events and counters with those of the
buffer that the guest writes to; the kernel swaps two pointers instead.
If the guest's buffer has become smaller since the last swap, it takes only the newest
events; the kernel shrinks the spare buffer earlier. Source: tracing_snapshot_write(),
update_max_tr() and print_snapshot_help() in kernel/trace/trace.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import TracefsError
from ..memento import Restore, attributes
from ..trace.buffer.contents import Contents
from ..trace.buffer.events import EventTable
from ..trace.buffer.rawpages import unread_pages
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.header import header
from ..trace.text.textcontext import TextContext
from ..trace.text.tracetext import TraceText
from .number import kstrtoul
from .tree import File, Handle, Node

_HELP = """\
#
# * Snapshot is {state} *
#
# Snapshot commands:
# echo 0 > snapshot : {free}
# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.
#                      Takes a snapshot of the main buffer{which}.
# echo 2 > snapshot : Clears {clear})
#                      (Doesn't have to be '2' works with any number that
#                       is not a '0' or '1')
"""
_OF_ALL = {
    "free": "Clears and frees snapshot buffer",
    "which": "",
    "clear": "snapshot buffer (but does not allocate or free",
}
_OF_ONE = {
    "free": "Invalid for per_cpu snapshot file.",
    "which": " for this cpu",
    "clear": "this cpu's snapshot buffer (but does not allocate",
}


class Lines(Protocol):
    """A trace array, as far as the text of a snapshot needs it."""

    def context(self, in_buffer: int = 0, overrun: int = 0) -> TextContext:
        """Return what the rows of events need besides the events."""
        ...

    def as_text(self, table: EventTable, context: TextContext) -> TraceText:
        """Return the events as the current tracer prints them."""
        ...

    def text(self, cpu: int | None = None) -> TraceText:
        """Return the content of the file trace."""
        ...


class Snapshot:
    """The spare buffer of a trace array."""

    def __init__(self, ring: RingBuffer, lines: Lines) -> None:
        self._ring = ring
        self._lines = lines
        self._spare: tuple[Contents, ...] | None = None
        self.holds_max = False
        """Whether a latency tracer keeps its maximum here, so that nobody else can use it."""

    @property
    def allocated(self) -> bool:
        """Whether the spare buffer exists."""
        return self._spare is not None

    def allocate(self) -> None:
        """Make an empty spare buffer if none exists (`tracing_alloc_snapshot_instance`)."""
        if self._spare is None:
            self._spare = self._empty()

    def free(self) -> None:
        """Drop the spare buffer."""
        self._spare = None

    def clear(self, cpu: int | None = None) -> None:
        """Empty the spare buffer of one CPU or of all."""
        if self._spare is not None:
            empty = self._empty()
            self._spare = tuple(
                empty[each] if cpu in (None, each) else kept
                for each, kept in enumerate(self._spare)
            )

    def swap(self, cpu: int | None = None) -> None:
        """Swap the spare buffer, of one CPU or of all, with that in use; no effect without one."""
        if self._spare is not None and cpu is None:
            self._spare = self._ring.exchange(self._spare)
        elif cpu is not None:
            self._ring.settle()
            self.swap_cpu(cpu)

    def swap_cpu(self, cpu: int) -> None:
        """Swap only the buffer of `cpu`, which waits for it (`update_max_tr_single`)."""
        if self._spare is not None:
            mine = self._ring.exchange_cpu(cpu, self._spare[cpu])
            self._spare = (*self._spare[:cpu], mine, *self._spare[cpu + 1 :])

    def table(self) -> EventTable:
        """Return its events."""
        return EventTable.merge(
            (cpu, part)
            for cpu, each in enumerate(self._spare or ())
            for part in self._ring.decode(each.pages, each.read)
        )

    def pages_since(self, time: int) -> list[NDArray[np.uint8]]:
        """Return the pages for readers of each CPU, with the events from `time` on."""
        layout = self._ring.layout
        found = []
        for kept in self._spare or ():
            events = layout.decode(kept.pages).events
            unread = (events["page"] > 0) | (events["offset"] >= kept.read)
            events = events[unread & (events["ts"] >= np.uint64(time))]
            first, read = (events["page"][0], events["offset"][0]) if len(events) else (None, 0)
            pages = kept.pages[:0] if first is None else kept.pages[first:]
            found.append(unread_pages(layout, pages, int(read)))
        return found

    def lost(self, table: EventTable, cpu: int | None = None) -> int:
        """Return how many events of one CPU or of all were overwritten; `table` has the rest."""
        present = table.events["cpu"]
        return sum(
            kept.lost(int((present == each).sum()))
            for each, kept in enumerate(self._spare or ())
            if cpu in (None, each)
        )

    def consume_page(self, cpu: int) -> bytes:
        """Take out the events of one page of `cpu`, as a page for readers; b"" if it is empty."""
        layout = self._ring.layout
        while self._spare is not None and len(self._spare[cpu].pages):
            kept = self._spare[cpu]
            page = kept.pages[:1]
            found = unread_pages(layout, page, kept.read)
            taken = sum(len(part.events) for part in self._ring.decode(page, kept.read))
            counters = {**kept.counters, "read_events": kept.counters["read_events"] + taken}
            left = replace(kept, pages=kept.pages[1:], read=0, counters=counters)
            self._spare = (*self._spare[:cpu], left, *self._spare[cpu + 1 :])
            if len(found):
                data: bytes = found[0].tobytes()
                return data
        return b""

    def text(self, cpu: int | None = None) -> Iterator[str]:
        """Yield its events as the file trace would show them, or the help if it is empty.

        With `cpu`, those of one CPU.
        """
        if self.holds_max:
            yield from self._lines.text(cpu).file()
            return
        table = self.table()
        present = len(table)
        if cpu is not None:
            table = table.take(np.flatnonzero(table.events["cpu"] == cpu))
        if not len(table):
            context = self._lines.context()
            title = header(context)[: 4 if context.ftrace_dead else 2]
            yield "\n".join([*title, ""])
            words = _OF_ALL if cpu is None else _OF_ONE
            yield _HELP.format(state="allocated" if self.allocated else "freed", **words)
            return
        context = self._lines.context(present, self.lost(self.table()))
        yield from self._lines.as_text(table, context).file()

    def save(self) -> Restore:
        """Return a function that restores the spare buffer."""
        return attributes(self, "_spare", "holds_max")

    def _empty(self) -> tuple[Contents, ...]:
        return tuple(Contents() for _ in self._ring.cpus)


class SnapshotFile(File):
    """The file of the spare buffer, of one CPU or of all."""

    mode = 0o640

    def __init__(self, ring: RingBuffer, snapshot: Snapshot, cpu: int | None = None) -> None:
        self._ring = ring
        self._snapshot = snapshot
        self._cpu = cpu

    def read(self) -> str:
        """Return header and rows, or the help."""
        return "".join(self._snapshot.text(self._cpu))

    def write(self, text: str) -> None:
        """Free it with 0, swap the buffers with 1, clear it with any other number.

        Raises `TracefsError`: EBUSY while a latency tracer uses it, EINVAL to free one CPU's.
        """
        self._ring.expand()
        value, snapshot = kstrtoul(text), self._snapshot
        if snapshot.holds_max:
            raise TracefsError(errno.EBUSY)
        if value == 0 and self._cpu is not None:
            raise TracefsError(errno.EINVAL)
        if value == 0:
            snapshot.free()
        elif value == 1:
            snapshot.allocate()
            snapshot.swap(self._cpu)
        else:
            snapshot.clear(self._cpu)


class SnapshotRaw(File):
    """The pages of the spare buffer of one CPU; a reader takes them away."""

    mode = 0o440
    consumes = True

    def __init__(self, snapshot: Snapshot, cpu: int) -> None:
        self._snapshot = snapshot
        self._cpu = cpu

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file. Raises `TracefsError` (EBUSY) while a latency tracer uses the buffer."""
        if self._snapshot.holds_max:
            raise TracefsError(errno.EBUSY)
        return super().open(write=write, truncate=truncate)

    def read(self) -> str:
        """Return a page, with its bytes decoded by `surrogateescape`."""
        return self._snapshot.consume_page(self._cpu).decode("utf-8", "surrogateescape")


def files(ring: RingBuffer, snapshot: Snapshot) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"snapshot": SnapshotFile(ring, snapshot)}


def cpu_files(ring: RingBuffer, snapshot: Snapshot, cpu: int) -> Mapping[str, Node]:
    """Return the files of this module in the directory of `cpu`."""
    return {
        "snapshot": SnapshotFile(ring, snapshot, cpu),
        "snapshot_raw": SnapshotRaw(snapshot, cpu),
    }
