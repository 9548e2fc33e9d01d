"""The buffers: buffer_size_kb, buffer_total_size_kb, and what per_cpu/ holds of each."""

from __future__ import annotations

from collections.abc import Mapping

from .array import TraceArray
from .number import kstrtoul
from .traces import Trace, TracePipe
from .tree import Directory, File, Node


class BufferSize(File):
    """KB of buffer of each CPU, or of one."""

    mode = 0o644

    def __init__(self, array: TraceArray, cpu: int | None = None) -> None:
        self._array = array
        self._cpu = cpu

    def read(self) -> str:
        """The size; `X` where the CPUs differ; what it will be where it is not used yet."""
        return self._array.ring.size_text(self._cpu)

    def write(self, text: str) -> None:
        """Another size, at least 1."""
        self._array.ring.resize(kstrtoul(text), self._cpu)


class BufferTotalSize(File):
    """KB of buffer of all CPUs."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """The sum."""
        return self._array.ring.total_size_text()


class Stats(File):
    """Counts of one CPU's buffer."""

    def __init__(self, array: TraceArray, cpu: int) -> None:
        self._array = array
        self._cpu = cpu

    def read(self) -> str:
        """One count a line."""
        return self._array.ring.stats(self._cpu).text(self._array.clock_in_ns)


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "buffer_size_kb": BufferSize(array),
        "buffer_total_size_kb": BufferTotalSize(array),
        "per_cpu": Directory(
            {
                f"cpu{cpu}": Directory(
                    {
                        "trace": Trace(array, cpu),
                        "trace_pipe": TracePipe(array, cpu),
                        "stats": Stats(array, cpu),
                        "buffer_size_kb": BufferSize(array, cpu),
                    }
                )
                for cpu in range(len(array.machine.vcpus))
            }
        ),
    }
