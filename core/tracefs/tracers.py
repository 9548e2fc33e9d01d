"""Which tracer is on: available_tracers, current_tracer, tracing_on, tracing_cpumask."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ..errors import TracefsError
from .array import TraceArray
from .number import boolean
from .tree import File, Node


class AvailableTracers(File):
    """The names that can be written to current_tracer."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """One line."""
        return " ".join(self._array.tracers()) + "\n"


class CurrentTracer(File):
    """The tracer that is on."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """Its name."""
        return self._array.tracer + "\n"

    def write(self, text: str) -> None:
        """Switch to another; white space around the name does not count."""
        self._array.set_tracer(text.strip())


class TracingOn(File):
    """Whether events are written to the buffer."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """1 or 0."""
        return f"{int(self._array.tracing_on)}\n"

    def write(self, text: str) -> None:
        """0 stops recording, any other number starts it."""
        self._array.set_tracing_on(boolean(text))


class TracingCpumask(File):
    """The CPUs that record events, as a hexadecimal mask."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """A digit for each four CPUs."""
        digits = -(-len(self._array.machine.vcpus) // 4)
        return f"{self._array.tracing_cpumask:0{digits}x}\n"

    def write(self, text: str) -> None:
        """Digits in groups of at most eight, a comma between groups (`cpumask_parse_user`)."""
        groups = text.strip().split(",")
        if not all(1 <= len(group) <= 8 and _is_hex(group) for group in groups):
            raise TracefsError(errno.EINVAL)
        mask = int("".join(group.zfill(8) for group in groups), 16)
        if mask >> len(self._array.machine.vcpus):
            raise TracefsError(errno.EOVERFLOW)
        self._array.set_cpumask(mask)


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "available_tracers": AvailableTracers(array),
        "current_tracer": CurrentTracer(array),
        "tracing_on": TracingOn(array),
        "tracing_cpumask": TracingCpumask(array),
    }
