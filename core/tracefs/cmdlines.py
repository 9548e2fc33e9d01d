"""Names and thread groups of tasks: saved_cmdlines, saved_cmdlines_size and saved_tgids.

The guest records them at task switches, in a table that its `savedcmd` points to
(arches/guest/sched/cmdline.c). The first change of its size replaces the table in the kernel by one
with room for the maximum size. Source: tracing_resize_saved_cmdlines(), saved_cmdlines_show() and
saved_tgids_show() in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..abi import SAVED_CMDLINES, saved_cmdline
from ..errors import MemoryFault, TracefsError
from ..ftrace.opslist import area_part
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.memory import PAGE_SIZE
from ..trace.text.columntexts import cmdlines, tgids
from .number import kstrtoul
from .tree import File, Node

MOST = 0x8000
"""Maximum number of tasks (`PID_MAX_DEFAULT`)."""

_POINTER = "savedcmd"
_HEAD = 8
_REGION = "saved_cmdlines"
_PART = 1


class SavedTasks:
    """The guest's table of tasks."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms) -> None:
        self._machine = machine
        self._kallsyms = kallsyms
        self._layout = saved_cmdline(machine.port.facts.byteorder)

    @property
    def _pointer(self) -> int | None:
        return self._kallsyms.address(_POINTER)

    @property
    def size(self) -> int:
        """Number of tasks that the table has room for."""
        pointer, memory = self._pointer, self._machine.memory
        try:
            size = 0 if pointer is None else memory.read_int(memory.read_int(pointer), 4)
        except MemoryFault:
            size = 0
        return size if 0 < size <= MOST else SAVED_CMDLINES

    def resize(self, size: int) -> None:
        """Make room for `size` tasks, and forget those that are recorded.

        Raises `TracefsError`: EINVAL for a size out of range, ENOMEM if the guest lacks the table
        or memory is short.
        """
        if not 0 < size <= MOST:
            raise TracefsError(errno.EINVAL)
        pointer, memory = self._pointer, self._machine.memory
        if pointer is None:
            raise TracefsError(errno.ENOMEM)
        start = area_part(self._machine.port.facts, _PART).start
        if memory.region_at(start) is None:
            room = -(-(_HEAD + MOST * self._layout.itemsize) // PAGE_SIZE) * PAGE_SIZE
            try:
                memory.map(start, room, _REGION, executable=False)
            except MemoryFault as error:
                raise TracefsError(errno.ENOMEM) from error
        memory.view(start, _HEAD + MOST * self._layout.itemsize)[:] = 0
        memory.write_int(start, size, 4)
        memory.write_int(pointer, start)

    def _rows(self) -> NDArray[np.void]:
        pointer, memory = self._pointer, self._machine.memory
        try:
            start = 0 if pointer is None else memory.read_int(pointer)
            data = memory.read(start + _HEAD, self.size * self._layout.itemsize) if start else b""
        except MemoryFault:
            data = b""
        return np.frombuffer(data, self._layout)

    def names(self) -> Mapping[int, str]:
        """Return the names of tasks by pid."""
        return cmdlines(self._rows())

    def tgids(self) -> Mapping[int, int]:
        """Return the thread groups of tasks by pid."""
        return tgids(self._rows())


class SavedCmdlines(File):
    """The names of tasks that were traced; a tracer or an event must have been on."""

    def __init__(self, tasks: SavedTasks) -> None:
        self._tasks = tasks

    def read(self) -> str:
        """Return lines of `pid comm`."""
        return "".join(f"{pid} {comm}\n" for pid, comm in self._tasks.names().items())


class SavedCmdlinesSize(File):
    """The number of tasks whose names can be kept."""

    mode = 0o640

    def __init__(self, tasks: SavedTasks) -> None:
        self._tasks = tasks

    def read(self) -> str:
        """Return the number."""
        return f"{self._tasks.size}\n"

    def write(self, text: str) -> None:
        """Accept 1 to 32768; names recorded before are forgotten."""
        self._tasks.resize(kstrtoul(text))


class SavedTgids(File):
    """The thread groups of tasks, recorded for events with the option record-tgid."""

    def __init__(self, tasks: SavedTasks) -> None:
        self._tasks = tasks

    def read(self) -> str:
        """Return lines of `pid tgid`, by pid."""
        return "".join(f"{pid} {tgid}\n" for pid, tgid in sorted(self._tasks.tgids().items()))


def files(tasks: SavedTasks) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "saved_cmdlines": SavedCmdlines(tasks),
        "saved_cmdlines_size": SavedCmdlinesSize(tasks),
        "saved_tgids": SavedTgids(tasks),
    }
