"""snapshot: a spare buffer that is swapped for the one in use.

The host holds the spare buffer. A swap exchanges its events and counters with those of the
buffer that the guest writes to; the kernel swaps two pointers instead.
If the guest's buffer has become smaller since the last swap, it takes only the newest
events; the kernel shrinks the spare buffer earlier. Source: tracing_snapshot_write(),
update_max_tr() and print_snapshot_help() in kernel/trace/trace.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Protocol

from ..errors import TracefsError
from ..memento import Restore, attributes
from ..trace.buffer.contents import Contents
from ..trace.buffer.events import EventTable
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.header import header
from ..trace.text.textcontext import TextContext
from ..trace.text.tracetext import TraceText
from .number import kstrtoul
from .tree import File, Node

HELP = """\
#
# * Snapshot is {state} *
#
# Snapshot commands:
# echo 0 > snapshot : Clears and frees snapshot buffer
# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.
#                      Takes a snapshot of the main buffer.
# echo 2 > snapshot : Clears snapshot buffer (but does not allocate or free)
#                      (Doesn't have to be '2' works with any number that
#                       is not a '0' or '1')
"""
"""Content of the file while the spare buffer is empty."""


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

    def swap(self) -> None:
        """Swap it with the buffer in use; no effect without a spare buffer."""
        if self._spare is not None:
            self._spare = self._ring.exchange(self._spare)

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

    def lost(self, table: EventTable, cpu: int | None = None) -> int:
        """Return how many events of one CPU or of all were overwritten, if `table` is left."""
        present = table.events["cpu"]
        return sum(
            kept.lost(int((present == each).sum()))
            for each, kept in enumerate(self._spare or ())
            if cpu in (None, each)
        )

    def text(self) -> Iterator[str]:
        """Yield its events as the file trace would show them, or the help if it is empty."""
        table = self.table()
        if self.holds_max:
            yield from self._lines.text().file()
            return
        if not len(table):
            context = self._lines.context()
            title = header(context)[: 4 if context.ftrace_dead else 2]
            yield "\n".join([*title, ""])
            yield HELP.format(state="allocated" if self.allocated else "freed")
            return
        lost = self.lost(table)
        yield from self._lines.as_text(table, self._lines.context(len(table), lost)).file()

    def save(self) -> Restore:
        """Return a function that restores the spare buffer."""
        return attributes(self, "_spare", "holds_max")

    def _empty(self) -> tuple[Contents, ...]:
        return tuple(Contents() for _ in self._ring.cpus)


class SnapshotFile(File):
    """The file of the spare buffer."""

    mode = 0o640

    def __init__(self, ring: RingBuffer, snapshot: Snapshot) -> None:
        self._ring = ring
        self._snapshot = snapshot

    def read(self) -> str:
        """Return header and rows, or the help."""
        return "".join(self._snapshot.text())

    def write(self, text: str) -> None:
        """Free it with 0, swap the buffers with 1, clear it with any other number.

        Raises `TracefsError` (EBUSY) while a latency tracer uses it.
        """
        self._ring.expand()
        if self._snapshot.holds_max:
            raise TracefsError(errno.EBUSY)
        value, snapshot = kstrtoul(text), self._snapshot
        if value == 0:
            snapshot.free()
        elif value == 1:
            snapshot.allocate()
            snapshot.swap()
        else:
            snapshot.clear()


def files(ring: RingBuffer, snapshot: Snapshot) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"snapshot": SnapshotFile(ring, snapshot)}
