"""The tasks whose events are written: set_event_pid and set_event_notrace_pid.

An event about two tasks, such as sched_switch, is written if one of them is chosen. Source:
trace_ignore_this_task() in kernel/trace/trace.c, ftrace_event_pid_write() in trace_events.c.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ...ftrace.pids import NOBODY
from ...memento import Restore, attributes
from ..pids import PidFile
from ..tree import File
from .eventfile import EventFiles


class EventPids:
    """The pids of events; each tuple is ascending."""

    def __init__(self, files: EventFiles) -> None:
        self.pids: tuple[int, ...] = ()
        """Tasks whose events are written; empty means all (`set_event_pid`)."""
        self.notrace: tuple[int, ...] = ()
        """Tasks whose events are not written (`set_event_notrace_pid`)."""
        self._files = files
        self._block = 0

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Write only events of the tasks `pids` (all tasks if empty), except those of `notrace`."""
        self.pids, self.notrace = tuple(sorted({*pids})), tuple(sorted({*notrace}))
        memory, blocks, array = self._files.memory, self._files.blocks, self._files.array
        if array is None:
            return
        self._files.settle()
        block = 0
        if self.pids or self.notrace:
            words = (len(self.pids), len(self.notrace), *self.pids, *self.notrace)
            order = "<" if memory.byteorder == "little" else ">"
            block = blocks.place(np.array(words, f"{order}u8").tobytes())
        array.set("event_pids", block)
        if self._block:
            blocks.free(self._block)
        self._block = block

    def save(self) -> Restore:
        """Return a function that restores the pids; the machine saves the guest's list."""
        return attributes(self, "pids", "notrace", "_block")


class EventPidFile(PidFile):
    """A file of pids; empty while no pids are set."""

    def read(self) -> str:
        """Return one pid a line, in ascending order."""
        return "".join(f"{pid}\n" for pid in self._pids if pid != NOBODY)


def files(pids: EventPids, bits: int) -> Mapping[str, File]:
    """Return the files of this module by name; `bits` is the width of the kernel's long."""
    return {
        "set_event_pid": EventPidFile(pids, bits, notrace=False),
        "set_event_notrace_pid": EventPidFile(pids, bits, notrace=True),
    }
