"""The current tracer: available_tracers, current_tracer, tracing_on, tracing_cpumask."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import TracefsError
from .number import boolean
from .tree import File, Node


class Tracing(Protocol):
    """A trace array, as far as these files need it."""

    @property
    def tracer(self) -> str:
        """Name of the current tracer."""
        ...

    @property
    def tracing_on(self) -> bool:
        """Whether events are written to the buffer."""
        ...

    @property
    def tracing_cpumask(self) -> int:
        """Bit mask of the CPUs that record events."""
        ...

    @property
    def cpus(self) -> int:
        """Number of CPUs."""
        ...

    def tracers(self) -> Sequence[str]:
        """Return the names of the available tracers."""
        ...

    def set_tracer(self, name: str) -> None:
        """Switch to another tracer. Raises `TracefsError` and `FtraceBug`."""
        ...

    def set_tracing_on(self, on: bool) -> None:
        """Start or stop recording."""
        ...

    def set_cpumask(self, mask: int) -> None:
        """Record on the CPUs of `mask`."""
        ...


class AvailableTracers(File):
    """The names that current_tracer accepts."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def read(self) -> str:
        """Return the names on one line."""
        return " ".join(self._tracing.tracers()) + "\n"


class CurrentTracer(File):
    """The current tracer."""

    mode = 0o644

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def read(self) -> str:
        """Return its name."""
        return self._tracing.tracer + "\n"

    def write(self, text: str) -> None:
        """Switch to another tracer; white space around the name is ignored."""
        self._tracing.set_tracer(text.strip())


class TracingOn(File):
    """Whether events are written to the buffer."""

    mode = 0o644

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def read(self) -> str:
        """Return 1 or 0."""
        return f"{int(self._tracing.tracing_on)}\n"

    def write(self, text: str) -> None:
        """Stop recording with 0, start it with any other number."""
        self._tracing.set_tracing_on(boolean(text))


class TracingCpumask(File):
    """The CPUs that record events, as a hexadecimal mask."""

    mode = 0o644

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def read(self) -> str:
        """Return one digit for every four CPUs."""
        digits = -(-self._tracing.cpus // 4)
        return f"{self._tracing.tracing_cpumask:0{digits}x}\n"

    def write(self, text: str) -> None:
        """Accept groups of at most eight digits, separated by commas (`cpumask_parse_user`)."""
        groups = text.strip().split(",")
        if not all(1 <= len(group) <= 8 and _is_hex(group) for group in groups):
            raise TracefsError(errno.EINVAL)
        mask = int("".join(group.zfill(8) for group in groups), 16)
        if mask >> self._tracing.cpus:
            raise TracefsError(errno.EOVERFLOW)
        self._tracing.set_cpumask(mask)


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def files(tracing: Tracing) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "available_tracers": AvailableTracers(tracing),
        "current_tracer": CurrentTracer(tracing),
        "tracing_on": TracingOn(tracing),
        "tracing_cpumask": TracingCpumask(tracing),
    }
