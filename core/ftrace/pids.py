"""The tasks that functions are traced of, in the guest's list.

While there are any, users that obey them are called by way of the guest's `PID_FUNC`
(arches/guest/tracer/trace_pid.c), which looks for the pid of the task that runs; the
graph tracer looks as well. A list is written where none is in force, and its address
after it. Source: trace_pid_write() in kernel/trace/trace.c, kernel/trace/pid_list.c.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..machine.machine import Machine
from ..quiet import settle
from .opslist import SiteArea

if TYPE_CHECKING:
    from .ftrace import Ftrace

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

    def __init__(self, machine: Machine, ftrace: Ftrace) -> None:
        self.pids: tuple[int, ...] = ()
        """Tasks that are traced; none for all (`set_ftrace_pid`)."""
        self.notrace: tuple[int, ...] = ()
        """Tasks that are not traced, whatever `pids` says (`set_ftrace_notrace_pid`)."""
        self._machine = machine
        self._ftrace = ftrace
        self._area = SiteArea(machine.port.facts, machine.memory, "ftrace_pids", _PART)

    @property
    def func(self) -> int | None:
        """What calls of users that obey go to first, as the ABI calls it; None without pids."""
        return self._ftrace.entry[PID_FUNC] if self.pids or self.notrace else None

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Trace `pids` alone, all if empty, without `notrace`, from now on.

        Raises `MissingSymbolError` where the tracer cannot, and `FtraceBug`; once ftrace is
        off nothing is called, and the pids are noted all the same.
        """
        if not (pids or notrace or self.pids or self.notrace):
            return
        entry, before = self._ftrace.entry, self.func
        settle(self._machine)  # the list before the last one is written over
        self.pids, self.notrace = tuple(sorted({*pids})), tuple(sorted({*notrace}))
        address = 0
        if self.pids or self.notrace:
            head = (len(self.pids), len(self.notrace))
            (address,) = self._area.write([np.array([*head, *self.pids, *self.notrace], np.uint64)])
        self._machine.memory.write_int(entry[LIST], address)
        obey = [each for each in self._ftrace.ops if each.pid]
        if self.func != before and obey and not self._ftrace.disabled:
            self._ftrace.set_hashes(obey[0])

    def save(self) -> SavedPids:
        """The pids now; the guest's list is the machine's to keep."""
        return SavedPids(self.pids, self.notrace, self._area.used)

    def restore(self, saved: SavedPids) -> None:
        """Go back, after the machine's memory has gone back to the same moment."""
        self.pids, self.notrace, self._area.used = saved.pids, saved.notrace, saved.used
