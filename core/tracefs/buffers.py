"""The buffers: buffer_size_kb, buffer_total_size_kb, and the files of per_cpu/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..trace.buffer.ringbuffer import RingBuffer
from .number import kstrtoul
from .traces import Events, Trace, TracePipe, TracePipeRaw
from .tree import Directory, File, Node


class Buffers(Events, Protocol):
    """A trace array, as far as these files need it."""

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns; else they are counts."""
        ...


class BufferSize(File):
    """KiB of buffer of each CPU, or of one."""

    mode = 0o644

    def __init__(self, ring: RingBuffer, cpu: int | None = None) -> None:
        self._ring = ring
        self._cpu = cpu

    def read(self) -> str:
        """Return the size; `X` if CPUs differ; before the first use, the future size as well."""
        return self._ring.size_text(self._cpu)

    def write(self, text: str) -> None:
        """Change the size; the least is 1."""
        self._ring.resize(kstrtoul(text), self._cpu)


class BufferTotalSize(File):
    """KiB of buffer of all CPUs."""

    def __init__(self, ring: RingBuffer) -> None:
        self._ring = ring

    def read(self) -> str:
        """Return the sum."""
        return self._ring.total_size_text()


class Stats(File):
    """Counters of one CPU's buffer."""

    def __init__(self, buffers: Buffers, cpu: int) -> None:
        self._buffers = buffers
        self._cpu = cpu

    def read(self) -> str:
        """Return one counter a line."""
        return self._buffers.ring.stats(self._cpu).text(self._buffers.clock_in_ns)


def files(buffers: Buffers) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    ring = buffers.ring
    return {
        "buffer_size_kb": BufferSize(ring),
        "buffer_total_size_kb": BufferTotalSize(ring),
        "per_cpu": Directory(
            {
                f"cpu{cpu}": Directory(
                    {
                        "trace": Trace(buffers, cpu),
                        "trace_pipe": TracePipe(buffers, cpu),
                        "trace_pipe_raw": TracePipeRaw(buffers, cpu),
                        "stats": Stats(buffers, cpu),
                        "buffer_size_kb": BufferSize(ring, cpu),
                    }
                )
                for cpu in ring.cpus
            }
        ),
    }
