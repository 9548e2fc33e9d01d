"""trace.dat, version 6: the pages of the buffers and what a reader needs to decode them.

The pages are those that the kernel hands to readers (rawpages.py). Source: the manual page
trace-cmd.dat.v6 of trace-cmd, in whose terms the sections are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...abi import RB_PAGE_SIZE
from ..buffer.rawpages import unread_pages
from ..buffer.ringbuffer import RingBuffer
from ..buffer.subbuffer import PageFormat

MAGIC = b"\x17\x08\x44tracing6\0"

ALIGNMENT = 4096
"""Alignment of the data of each CPU, in bytes."""

_CPUSTAT, _TRACECLOCK, _UNAME = 2, 4, 5


@dataclass(frozen=True, slots=True)
class Description:
    """What the file says beside the pages; texts are those of tracefs."""

    header_page: str
    header_event: str
    ftrace_formats: Sequence[str]
    """The files format of the tracers' events."""
    formats: Mapping[str, Sequence[str]]
    """The files format of all other events, by group."""
    kallsyms: str
    cmdlines: str
    trace_clock: str
    uname: str


def trace_dat(ring: RingBuffer, about: Description) -> bytes:
    """Return the file with the events that `ring` holds now; they stay there."""
    layout = ring.layout
    buffers = [unread_pages(layout, ring.pages(cpu), ring.head(cpu)[1]) for cpu in ring.cpus]
    stats = [f"CPU: {cpu}\n{ring.stats(cpu).text()}" for cpu in ring.cpus]
    head = b"".join(_head(layout, about, stats))
    flyrecord = b"flyrecord\0"
    at = _aligned(len(head) + len(flyrecord) + 16 * len(buffers))
    places, data = b"", b""
    for pages in buffers:
        places += _number(layout, at, 8) + _number(layout, pages.nbytes, 8)
        data += pages.tobytes()
        at += pages.nbytes
    whole = head + flyrecord + places
    return whole.ljust(_aligned(len(whole)), b"\0") + data


def _number(layout: PageFormat, value: int, size: int) -> bytes:
    return value.to_bytes(size, "little" if layout.byteorder == "little" else "big")


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _head(layout: PageFormat, about: Description, stats: Sequence[str]) -> Iterator[bytes]:
    """Yield everything up to the options."""

    def number(value: int, size: int) -> bytes:
        return _number(layout, value, size)

    def text(value: str, size: int) -> bytes:
        """Return `value` after its length, a number of `size` bytes."""
        data = value.encode("utf-8", "surrogateescape")
        return number(len(data), size) + data

    def option(kind: int, value: str) -> bytes:
        return number(kind, 2) + text(value + "\0", 4)

    yield MAGIC
    yield number(int(layout.byteorder != "little"), 1)
    yield number(layout.pointer_size, 1)
    yield number(RB_PAGE_SIZE, 4)
    yield b"header_page\0" + text(about.header_page, 8)
    yield b"header_event\0" + text(about.header_event, 8)
    yield number(len(about.ftrace_formats), 4)
    for each in about.ftrace_formats:
        yield text(each, 8)
    yield number(len(about.formats), 4)
    for group, formats in about.formats.items():
        yield group.encode() + b"\0" + number(len(formats), 4)
        for each in formats:
            yield text(each, 8)
    yield text(about.kallsyms, 4)
    yield text("", 4)  # printk_formats
    yield text(about.cmdlines, 8)
    yield number(len(stats), 4)
    yield b"options  \0"
    for each in stats:
        yield option(_CPUSTAT, each)
    yield option(_TRACECLOCK, about.trace_clock)
    yield option(_UNAME, about.uname)
    yield number(0, 2)
