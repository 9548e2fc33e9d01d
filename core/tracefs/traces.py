"""Reading and marking the trace: trace, trace_pipe, trace_marker and trace_clock."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ..errors import TracefsError
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.tracetext import TraceText
from .tree import File, Handle, Node

BLOCK = "block"
"""The option that makes poll find each pipe readable."""

PAUSE_ON_TRACE = "pause-on-trace"
"""The option that stops recording while the file trace is open."""


class Events(Protocol):
    """A trace array, as far as trace and trace_pipe need it."""

    @property
    def options(self) -> Mapping[str, bool]:
        """The options, by name."""
        ...

    def pause(self, on: bool) -> None:
        """Pause or resume writing events; nested pauses count."""
        ...

    @property
    def tracing_on(self) -> bool:
        """Whether events are written to the buffer."""
        ...

    @property
    def ring(self) -> RingBuffer:
        """The ring buffers."""
        ...

    buffer_percent: int
    """How full a CPU's buffer must be before poll finds its pipe readable, in percent."""

    def text(self, cpu: int | None = None) -> TraceText:
        """Return the events of one CPU or of all."""
        ...

    def consume(self, cpu: int | None = None) -> Iterator[str]:
        """Take the events of one CPU or of all out of the buffers."""
        ...

    def clear(self, cpu: int | None = None) -> None:
        """Drop the events that `text` returns."""
        ...


class Clocked(Protocol):
    """A trace array, as far as trace_clock needs it."""

    @property
    def clock(self) -> str:
        """The clock in use."""
        ...

    @property
    def clocks(self) -> Sequence[str]:
        """The clocks that can be used."""
        ...

    def set_clock(self, name: str) -> None:
        """Use another clock. Raises `TracefsError` (EINVAL) if it does not exist."""
        ...


class Marked(Protocol):
    """A trace array, as far as trace_marker needs it."""

    @property
    def options(self) -> Mapping[str, bool]:
        """The options, by name."""
        ...

    @property
    def tracing_on(self) -> bool:
        """Whether events are written to the buffer."""
        ...

    def mark(self, text: str) -> None:
        """Write `text` as an event."""
        ...

    def mark_raw(self, data: bytes) -> None:
        """Write `data` as an event."""
        ...


class Traced(Events, Clocked, Marked, Protocol):
    """A trace array, as far as all files of this module need it."""


class Trace(File):
    """The events in the buffers of all CPUs or of one; reading leaves them there."""

    mode = 0o640

    def __init__(self, events: Events, cpu: int | None = None) -> None:
        self._events = events
        self._cpu = cpu

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file; with the option pause-on-trace, recording stops while it is open."""
        if self._events.options[PAUSE_ON_TRACE] and not write:
            return _Paused(self, self._events)
        return super().open(write=write, truncate=truncate)

    def read(self) -> str:
        """Return header and rows."""
        return "".join(self._events.text(self._cpu).file())

    def write(self, text: str) -> None:
        """Ignore `text`; only emptying the file has an effect."""

    def truncate(self) -> None:
        """Clear the buffers."""
        self._events.clear(self._cpu)


class _Paused(Handle):
    """The file trace, open for reading with the option pause-on-trace."""

    acts = True

    def __init__(self, file: File, events: Events) -> None:
        super().__init__(file)
        self._events = events
        events.pause(True)

    def close(self) -> None:
        """Close the file and resume recording."""
        super().close()
        self._events.pause(False)


class TracePipe(File):
    """The unread events; reading takes them out of the buffers."""

    mode = 0o440
    consumes = True

    def __init__(self, events: Events, cpu: int | None = None) -> None:
        self._events = events
        self._cpu = cpu

    def read(self) -> str:
        """Return rows without a header; empty without events."""
        return "".join(self._events.consume(self._cpu))

    @property
    def ready(self) -> bool:
        """Whether there are unread events; of one CPU, whether buffer_percent is reached."""
        return _readable(self._events, self._cpu)

    def ended(self, read_before: bool) -> bool:
        """As in `tracing_wait_pipe`, a reader that has read something ends when tracing stops."""
        return read_before and not self._events.tracing_on


class TracePipeRaw(File):
    """The unread events of one CPU, a page of the buffer at a time; a reader waits for more."""

    mode = 0o440
    consumes = in_pages = True

    def __init__(self, events: Events, cpu: int) -> None:
        self._events = events
        self._ring = events.ring
        self._cpu = cpu

    def read(self) -> str:
        """Return a page, with its bytes decoded by `surrogateescape`."""
        return self._ring.consume_page(self._cpu).decode("utf-8", "surrogateescape")

    @property
    def ready(self) -> bool:
        """Whether poll finds it readable: buffer_percent is reached."""
        return _readable(self._events, self._cpu)

    @property
    def whole_page(self) -> bool:
        """Whether the next page is complete: splice(2) moves no others."""
        return self._ring.whole_page(self._cpu)

    def ended(self, read_before: bool) -> bool:
        """Return False: a reader always waits."""
        return False


def _readable(events: Events, cpu: int | None) -> bool:
    """As in `ring_buffer_poll_wait`, a percentage counts only for one CPU's buffer."""
    if events.options[BLOCK]:
        return True
    if not events.ring.in_buffer(cpu):
        return False
    return cpu is None or events.ring.filled(cpu, events.buffer_percent)


class TraceMarker(File):
    """Text written here becomes an event, written by the guest's tracing_mark_write."""

    mode = 0o220

    def __init__(self, marked: Marked) -> None:
        self._marked = marked

    def write(self, text: str) -> None:
        """Write one event of at most 1 KiB; EBADF while tracing is off, EINVAL without markers."""
        if not self._marked.options["markers"]:
            raise TracefsError(errno.EINVAL)
        if not self._marked.tracing_on:
            raise TracefsError(errno.EBADF)
        self._marked.mark(text)


class TraceMarkerRaw(TraceMarker):
    """Bytes written here become an event: a number of 4 bytes, and data."""

    def write(self, text: str) -> None:
        """Write one event; EBADF while tracing is off, EINVAL without markers or a number."""
        if not self._marked.options["markers"]:
            raise TracefsError(errno.EINVAL)
        self._marked.mark_raw(text.encode("utf-8", "surrogateescape"))


class TraceClock(File):
    """The clock of the time stamps; the clock in use is in brackets."""

    mode = 0o644

    def __init__(self, clocked: Clocked) -> None:
        self._clocked = clocked

    def read(self) -> str:
        """Return all clocks on one line."""
        clocks, current = self._clocked.clocks, self._clocked.clock
        return " ".join(f"[{name}]" if name == current else name for name in clocks) + "\n"

    def write(self, text: str) -> None:
        """Use another clock and clear the buffers; EINVAL if the clock does not exist."""
        self._clocked.set_clock(text.strip())


def files(traced: Traced) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "trace": Trace(traced),
        "trace_pipe": TracePipe(traced),
        "trace_marker": TraceMarker(traced),
        "trace_marker_raw": TraceMarkerRaw(traced),
        "trace_clock": TraceClock(traced),
    }
