"""The tasks that functions are traced of, in the guest's list.

While there are any, users that obey them are called by way of the guest's `PID_FUNC`
(arches/guest/tracer/trace_pid.c), which looks for the pid of the task that runs; the
graph tracer looks as well. A list is written where none is in force, and its address
after it. Source: trace_pid_write() in kernel/trace/trace.c, kernel/trace/pid_list.c.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..facts import Facts
from ..machine.memory import Memory
from .entry import Entry
from .opslist import SiteArea

MAX_PID = 1 << 30
"""A pid is less than this."""

PID_FUNC = "ftrace_pid_func"
"""The guest's function that asks for the task before the function that was registered."""

LIST = "ftrace_pid_list"
"""The guest's address of the list in force."""

_PART = 5
"""Of the area for the sites of hashes."""


@dataclass(frozen=True, slots=True)
class SavedPids:
    """The pids at one moment."""

    pids: tuple[int, ...]
    notrace: tuple[int, ...]
    used: int


class FtracePids:
    """The pids of one machine, each tuple in rising order."""

    def __init__(self, facts: Facts, memory: Memory) -> None:
        self.pids: tuple[int, ...] = ()
        """Tasks that are traced; none for all (`set_ftrace_pid`)."""
        self.notrace: tuple[int, ...] = ()
        """Tasks that are not traced, whatever `pids` says (`set_ftrace_notrace_pid`)."""
        self._memory = memory
        self._area = SiteArea(facts, memory, "ftrace_pids", _PART)

    @property
    def on(self) -> bool:
        """Whether tasks are chosen by pid."""
        return bool(self.pids or self.notrace)

    def write(self, entry: Entry, pids: Collection[int], notrace: Collection[int]) -> None:
        """Trace `pids`, all if empty, without `notrace`, from now on.

        The guest must not be looking at the list before the last one any more.
        """
        self.pids, self.notrace = tuple(sorted({*pids})), tuple(sorted({*notrace}))
        address = 0
        if self.on:
            head = (len(self.pids), len(self.notrace))
            (address,) = self._area.write([np.array([*head, *self.pids, *self.notrace], np.uint64)])
        self._memory.write_int(entry[LIST], address)

    def save(self) -> SavedPids:
        """The pids now; the guest's list is the machine's to keep."""
        return SavedPids(self.pids, self.notrace, self._area.used)

    def restore(self, saved: SavedPids) -> None:
        """Go back, after the machine's memory has gone back to the same moment."""
        self.pids, self.notrace, self._area.used = saved.pids, saved.notrace, saved.used
