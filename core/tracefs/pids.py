"""Which tasks' functions are traced: set_ftrace_pid and set_ftrace_notrace_pid.

Pids by white space; a write takes all of them or none. The function tracer and
function_graph obey them, events do not. Source: pid_open() and pid_write() in
kernel/trace/ftrace.c, trace_pid_write() in kernel/trace/trace.c.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ..errors import TracefsError
from ..ftrace.pids import MAX_PID
from .array import TraceArray
from .number import kstrtoul
from .tree import File, Node

NO_PID = "no pid\n"
"""What the file says while it holds none."""

_WORD_MAX = 127
"""Characters of a word that the kernel has room for (`PID_BUF_SIZE`)."""


class PidFile(File):
    """The pids to trace, or (`notrace`) to leave out."""

    mode = 0o640

    def __init__(self, array: TraceArray, notrace: bool) -> None:
        self._all = array.ftrace.pids
        self._notrace = notrace
        self._bits = 8 * array.ftrace.port.facts.pointer_size

    @property
    def _pids(self) -> tuple[int, ...]:
        return self._all.notrace if self._notrace else self._all.pids

    def _put(self, pids: tuple[int, ...]) -> None:
        if self._notrace:
            self._all.set(self._all.pids, pids)
        else:
            self._all.set(pids, self._all.notrace)

    def read(self) -> str:
        """One pid a line, in rising order."""
        return "".join(f"{pid}\n" for pid in self._pids) or NO_PID

    def truncate(self) -> None:
        """Forget them: all tasks are traced, as far as this file goes."""
        self._put(())

    def write(self, text: str) -> None:
        """Add pids, decimal, octal or hexadecimal.

        Raises `TracefsError`: EINVAL and ERANGE for what is no number, EPERM for one that
        no pid can be.
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


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "set_ftrace_pid": PidFile(array, notrace=False),
        "set_ftrace_notrace_pid": PidFile(array, notrace=True),
    }
