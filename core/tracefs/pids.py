"""The tasks whose functions are traced: set_ftrace_pid and set_ftrace_notrace_pid.

White space separates pids; a write accepts all of them or none. The function tracer and
function_graph obey these pids; events have files of their own (events/pids.py). Source:
pid_open() and pid_write() in kernel/trace/ftrace.c, trace_pid_write() in kernel/trace/trace.c.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from typing import Protocol

from ..errors import TracefsError
from ..ftrace.pids import MAX_PID, NOBODY
from .number import kstrtoul
from .tree import File, Node

NO_PID = "no pid\n"
"""Content of the file while no pids are set."""

_WORD_MAX = 127
"""Longest word that the kernel accepts, in characters (`PID_BUF_SIZE`)."""


class Pids(Protocol):
    """Tasks to trace, and tasks not to trace."""

    @property
    def pids(self) -> tuple[int, ...]: ...

    @property
    def notrace(self) -> tuple[int, ...]: ...

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Choose other tasks."""
        ...


class PidFile(File):
    """The pids to trace, or with `notrace` those not to trace."""

    mode = 0o640

    def __init__(self, pids: Pids, bits: int, notrace: bool) -> None:
        """`bits` is the width of the kernel's long."""
        self._all = pids
        self._notrace = notrace
        self._bits = bits

    @property
    def _pids(self) -> tuple[int, ...]:
        return self._all.notrace if self._notrace else self._all.pids

    def _put(self, pids: tuple[int, ...]) -> None:
        if self._notrace:
            self._all.set(self._all.pids, pids)
        else:
            self._all.set(pids, self._all.notrace)

    def read(self) -> str:
        """Return one pid a line, in ascending order."""
        shown = "".join(f"{pid}\n" for pid in self._pids if pid != NOBODY)
        return shown if self._pids else NO_PID

    def truncate(self) -> None:
        """Remove all pids: this file then excludes no task."""
        self._put(())

    def write(self, text: str) -> None:
        """Add pids, in decimal, octal or hexadecimal.

        Raises `TracefsError`: EINVAL for a word that is not a number, ERANGE for one that
        does not fit a long, EPERM for a number that cannot be a pid.
        """
        added = []
        for word in text.split():
            if len(word) > _WORD_MAX:
                raise TracefsError(errno.EINVAL)
            # The kernel keeps 32 bits of a long.
            pid = kstrtoul(word, self._bits, base=0) % (1 << 32)
            if pid >= MAX_PID:
                raise TracefsError(errno.EPERM)
            added.append(pid)
        self._put((*self._pids, *added))


def files(pids: Pids, bits: int) -> Mapping[str, Node]:
    """Return the files of this module by name; `bits` is the width of the kernel's long."""
    return {
        "set_ftrace_pid": PidFile(pids, bits, notrace=False),
        "set_ftrace_notrace_pid": PidFile(pids, bits, notrace=True),
    }
