"""What was traced: trace, trace_pipe, trace_marker, trace_clock, saved_cmdlines."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ..errors import TracefsError
from .array import TraceArray
from .tree import File, Node


class Trace(File):
    """The events in the buffers, of all CPUs or of one; reading leaves them there."""

    mode = 0o640

    def __init__(self, array: TraceArray, cpu: int | None = None) -> None:
        self._array = array
        self._cpu = cpu

    def read(self) -> str:
        """Header and lines."""
        return "".join(self._array.text(self._cpu).file())

    def write(self, text: str) -> None:
        """What is written is ignored; emptying the file is what counts."""

    def truncate(self) -> None:
        """Clear the buffers."""
        self._array.ring.reset(self._cpu)


class TracePipe(File):
    """The events not read yet; reading takes them out of the buffer."""

    mode = 0o440

    def __init__(self, array: TraceArray, cpu: int | None = None) -> None:
        self._array = array
        self._cpu = cpu

    def read(self) -> str:
        """Lines without a header; nothing when there is nothing."""
        return "".join(self._array.consume(self._cpu))


class TraceMarker(File):
    """Text written here becomes an event, written by the guest's tracing_mark_write."""

    mode = 0o220

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def write(self, text: str) -> None:
        """One event of at most a kilobyte; EBADF while tracing is off, EINVAL without markers."""
        if not self._array.options["markers"]:
            raise TracefsError(errno.EINVAL)
        if not self._array.tracing_on:
            raise TracefsError(errno.EBADF)
        self._array.mark(text)


class TraceClock(File):
    """What time stamps count; the clock in use stands in brackets."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """One line."""
        clocks = self._array.clocks
        current = self._array.clock
        return " ".join(f"[{name}]" if name == current else name for name in clocks) + "\n"

    def write(self, text: str) -> None:
        """Take another clock; the buffers are cleared. EINVAL where there is none of the name."""
        self._array.set_clock(text.strip())


class SavedCmdlines(File):
    """The names of tasks that ran while events were recorded."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """`pid comm`."""
        return "".join(f"{pid} {comm}\n" for pid, comm in self._array.cmdlines().items())


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "trace": Trace(array),
        "trace_pipe": TracePipe(array),
        "trace_marker": TraceMarker(array),
        "trace_clock": TraceClock(array),
        "saved_cmdlines": SavedCmdlines(array),
    }
