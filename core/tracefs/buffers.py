"""The buffers: their sizes, when readers wake up, and the files of per_cpu/.

Source: tracing_free_buffer_release(), buffer_percent_write() and tracing_time_stamp_mode_show()
in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Protocol

from ..errors import TracefsError
from ..trace.buffer.ringbuffer import RingBuffer
from .number import kstrtoul
from .snapshot import Snapshot
from .snapshot import cpu_files as snapshot_files
from .traces import Events, Trace, TracePipe, TracePipeRaw
from .tree import Directory, File, FixedFile, Handle, Node


class Buffers(Events, Protocol):
    """A trace array, as far as these files need it."""

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns; else they are counts."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """The spare buffer."""
        ...

    @property
    def options(self) -> Mapping[str, bool]:
        """The options, by name."""
        ...

    def set_tracing_on(self, on: bool) -> None:
        """Start or stop recording."""
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


class FreeBuffer(File):
    """Closing this file frees the buffers; text written to it is ignored."""

    mode = 0o200

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file."""
        return _FreeOnClose(self, self._buffers)

    def write(self, text: str) -> None:
        """Ignore `text`."""


class _FreeOnClose(Handle):
    def __init__(self, file: File, buffers: Buffers) -> None:
        super().__init__(file)
        self._buffers = buffers

    def close(self) -> None:
        """Free the buffers; with the option disable_on_free, recording stops first."""
        super().close()
        if self._buffers.options["disable_on_free"]:
            self._buffers.set_tracing_on(False)
        self._buffers.ring.free()


class BufferPercent(File):
    """How full a CPU's buffer must be, in percent, before poll finds its pipe readable."""

    mode = 0o640

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def read(self) -> str:
        """Return the number."""
        return f"{self._buffers.buffer_percent}\n"

    def write(self, text: str) -> None:
        """Accept 0 to 100; 0 means that one event is enough."""
        value = kstrtoul(text)
        if value > 100:
            raise TracefsError(errno.EINVAL)
        self._buffers.buffer_percent = value


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
        "buffer_percent": BufferPercent(buffers),
        "free_buffer": FreeBuffer(buffers),
        "timestamp_mode": FixedFile("[delta] absolute\n"),
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
                        **snapshot_files(ring, buffers.snapshot, cpu),
                    }
                )
                for cpu in ring.cpus
            }
        ),
    }
