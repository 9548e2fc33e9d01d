"""snapshot: a spare buffer that is swapped for the one in use.

The spare one lies with the host; a swap puts its events, with their counters, into the
buffer that the guest writes to, and keeps what was in there: as the kernel swaps two
pointers. Only the memory is not given twice: a buffer that has been made smaller since
the last swap takes the newest events of the spare one, which the kernel makes smaller
first. Source: tracing_snapshot_write(), update_max_tr() and print_snapshot_help() in
kernel/trace/trace.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..trace.contents import Contents
from ..trace.events import EventTable
from ..trace.header import header
from .number import kstrtoul
from .tree import File, Node

if TYPE_CHECKING:
    from .array import TraceArray

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
"""What the file says while the spare buffer is empty."""


class Snapshot:
    """The spare buffer of a trace array."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array
        self._spare: tuple[Contents, ...] | None = None

    @property
    def allocated(self) -> bool:
        """Whether there is one."""
        return self._spare is not None

    def allocate(self) -> None:
        """Have one, empty if there was none (`tracing_alloc_snapshot_instance`)."""
        if self._spare is None:
            self._spare = self._empty()

    def free(self) -> None:
        """Have none."""
        self._spare = None

    def clear(self) -> None:
        """Throw away what is in it."""
        if self._spare is not None:
            self._spare = self._empty()

    def swap(self) -> None:
        """Swap it for the buffer in use; nothing without one."""
        if self._spare is not None:
            self._spare = self._array.ring.exchange(self._spare)

    def text(self) -> Iterator[str]:
        """Its events as the file trace would show them, in pieces; the help if there are none."""
        ring, spare = self._array.ring, self._spare or ()
        table = EventTable.merge(
            (cpu, part)
            for cpu, each in enumerate(spare)
            for part in ring.decode(each.pages, each.read)
        )
        if not len(table):
            context = self._array.context()
            title = header(context)[: 4 if context.ftrace_dead else 2]
            yield "\n".join([*title, ""])
            yield HELP.format(state="allocated" if self.allocated else "freed")
            return
        present = table.events["cpu"]
        lost = sum(each.lost(int((present == cpu).sum())) for cpu, each in enumerate(spare))
        yield from self._array.as_text(table, self._array.context(len(table), lost)).file()

    def save(self) -> tuple[Contents, ...] | None:
        """The spare buffer, for `restore`."""
        return self._spare

    def restore(self, saved: tuple[Contents, ...] | None) -> None:
        """Go back."""
        self._spare = saved

    def _empty(self) -> tuple[Contents, ...]:
        return tuple(Contents() for _ in self._array.ring.cpus)


class SnapshotFile(File):
    """The file of it."""

    mode = 0o640

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """Header and lines, or what can be written here."""
        return "".join(self._array.snapshot.text())

    def write(self, text: str) -> None:
        """0 frees it, 1 swaps the buffers, any other number clears it."""
        self._array.ring.expand()
        value, snapshot = kstrtoul(text), self._array.snapshot
        if value == 0:
            snapshot.free()
        elif value == 1:
            snapshot.allocate()
            snapshot.swap()
        else:
            snapshot.clear()


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {"snapshot": SnapshotFile(array)}
