"""The tasks whose functions are traced, as a list in guest memory.

While any pid is set, users that obey pids are called through the guest's `PID_FUNC`
(arches/guest/tracer/trace_pid.c), which looks up the pid of the running task; the graph
tracer looks it up as well. A new list is written to memory that is not in use, then its
address is stored. Source: trace_pid_write() in kernel/trace/trace.c,
kernel/trace/pid_list.c.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from .entry import Entry
from .opslist import SiteArea
from .settle import settle

MAX_PID = 1 << 30
"""Upper bound of pids, exclusive."""

PID_FUNC = "ftrace_pid_func"
"""The guest function that checks the task, then calls the registered function."""

LIST = "ftrace_pid_list"
"""The guest variable that holds the address of the list in use."""

_PART = 5
"""This list's part of the area for the sites of hashes."""


class PidUsers(Protocol):
    """Ftrace, as far as the pids need it."""

    @property
    def entry(self) -> Entry:
        """The entry code. Raises `MissingSymbolError` for a kernel that cannot be traced."""
        ...

    def change(self) -> AbstractContextManager[ExitStack]:
        """Return a context for one transaction, as `Ftrace.change`."""
        ...

    def follow_pids(self) -> None:
        """Change how users that obey pids are called. Raises `FtraceBug`."""
        ...


NOBODY = MAX_PID
"""In a list that was not empty and whose tasks have all ended: it still selects nobody."""


def followed(pids: Sequence[int], pid: int, parent: int) -> tuple[int, ...]:
    """Return the list `pids` after `pid` was forked by `parent`, or with 0 has ended.

    Source: trace_filter_add_remove_task() in kernel/trace/trace.c.
    """
    if parent:
        return tuple(sorted({*pids, pid})) if parent in pids else tuple(pids)
    return tuple(each for each in pids if each != pid) or (NOBODY,) if pid in pids else tuple(pids)


def listed(pids: Sequence[int], notrace: Sequence[int]) -> NDArray[np.uint64]:
    """Return the words of the guest's list (`struct ftrace_pids`), of ascending pids."""
    return np.array([len(pids), len(notrace), *pids, *notrace], np.uint64)


class FtracePids:
    """The pids of one machine; each tuple is ascending."""

    def __init__(self, machine: Machine, users: PidUsers) -> None:
        self.pids: tuple[int, ...] = ()
        """Tasks that are traced; empty means all (`set_ftrace_pid`)."""
        self.notrace: tuple[int, ...] = ()
        """Tasks that are not traced, even if `pids` contains them (`set_ftrace_notrace_pid`)."""
        self._machine = machine
        self._users = users
        self._area = SiteArea(machine.port.facts, machine.memory, "ftrace_pids", _PART)

    @property
    def func(self) -> int | None:
        """Pointer to the function that checks tasks for users that obey pids; None without pids."""
        return self._users.entry[PID_FUNC] if self.pids or self.notrace else None

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Trace only `pids` (all tasks if empty) except `notrace`, from now on.

        Raises `MissingSymbolError` for a kernel that cannot be traced, and `FtraceBug`, after
        which the pids are the old ones.
        Once a bug has shut ftrace off, the pids are still stored.
        """
        if not (pids or notrace or self.pids or self.notrace):
            return
        entry, before = self._users.entry, self.func
        settle(self._machine)  # the list before the last one is overwritten
        memory = self._machine.memory
        with self._users.change() as undo:
            undo.callback(memory.write_int, entry[LIST], memory.read_int(entry[LIST]))
            undo.callback(self.save())
            self.pids, self.notrace = tuple(sorted({*pids})), tuple(sorted({*notrace}))
            address = 0
            if self.pids or self.notrace:
                (address,) = self._area.write([listed(self.pids, self.notrace)])
            memory.write_int(entry[LIST], address)
            if self.func != before:
                self._users.follow_pids()

    def save(self) -> Restore:
        """Return a function that restores the pids; the machine saves the guest's list."""
        return in_order(attributes(self, "pids", "notrace"), self._area.save())
