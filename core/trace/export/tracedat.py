"""trace.dat, versions 6 and 7: the pages of the buffers, and the formats to decode them.

The pages are those that the kernel hands to readers (rawpages.py). In version 6 the sections follow
each other; in version 7 options give their offsets. Sources: the manual pages trace-cmd.dat.v6 and
trace-cmd.dat.v7 of trace-cmd, in whose terms the sections are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_SIZE
from ..buffer.subbuffer import PageFormat

VERSIONS = (6, 7)
"""The versions that can be written; trace-cmd 3.0 and later read both."""

ALIGNMENT = 4096
"""Alignment of the data of each CPU, in bytes."""

_MAGIC = b"\x17\x08\x44tracing"

_DONE, _CPUSTAT, _BUFFER, _TRACECLOCK, _UNAME, _CPUCOUNT = 0, 2, 3, 4, 5, 8
_HEADER_INFO, _FTRACE_EVENTS, _EVENT_FORMATS, _KALLSYMS, _PRINTK, _CMDLINES = range(16, 22)
"""Numbers of options; in version 7, those of sections too."""

_SECTION_HEADER = 16
"""Bytes of the header of a section."""


@dataclass(frozen=True, slots=True)
class Description:
    """The content of the file besides the pages; texts are those of tracefs."""

    header_page: str
    header_event: str
    ftrace_formats: Sequence[str]
    """The files format of the tracers' events."""
    formats: Mapping[str, Sequence[str]]
    """The files format of all other events, by group."""
    kallsyms: str
    cmdlines: str
    printk_formats: str
    trace_clock: str
    """The file trace_clock."""
    clock: str
    """The clock in use."""
    uname: str
    stats: Sequence[str]
    """The files stats of the CPUs, with a heading each."""


def trace_dat(
    layout: PageFormat,
    pages: Sequence[NDArray[np.uint8]],
    about: Description,
    version: int = VERSIONS[0],
) -> bytes:
    """Return the file with `pages`, those for readers of each CPU, which `layout` describes.

    `version` is one of `VERSIONS`.
    """
    buffers = [(cpu, each.tobytes()) for cpu, each in enumerate(pages)]
    writer = _Writer(layout)
    options = [
        *((_CPUSTAT, writer.string(each)) for each in about.stats),
        (_TRACECLOCK, writer.string(about.trace_clock)),
        (_UNAME, writer.string(about.uname)),
    ]
    sections = writer.sections(about)
    if version == VERSIONS[0]:
        return writer.version_6(sections, options, buffers)
    return writer.version_7(sections, options, buffers, about.clock)


class _Writer:
    """Writes files with the byte order and the size of a long of a guest."""

    def __init__(self, layout: PageFormat) -> None:
        self._layout = layout

    def number(self, value: int, size: int) -> bytes:
        """Return a number of `size` bytes."""
        return value.to_bytes(size, "little" if self._layout.byteorder == "little" else "big")

    def sized(self, text: str, size: int) -> bytes:
        """Return `text` after its length, a number of `size` bytes."""
        data = text.encode("utf-8", "surrogateescape")
        return self.number(len(data), size) + data

    @staticmethod
    def string(text: str) -> bytes:
        """Return `text` and a zero byte."""
        return text.encode("utf-8", "surrogateescape") + b"\0"

    def option(self, kind: int, data: bytes) -> bytes:
        """Return an option."""
        return self.number(kind, 2) + self.number(len(data), 4) + data

    def begin(self, version: int) -> bytes:
        """Return the begin of a file, which both versions share."""
        big = self._layout.byteorder != "little"
        return (
            _MAGIC
            + self.string(str(version))
            + bytes([int(big), self._layout.pointer_size])
            + self.number(RB_PAGE_SIZE, 4)
        )

    def sections(self, about: Description) -> Mapping[int, bytes]:
        """Return the content of each section, in the order of version 6."""
        formats = self.number(len(about.formats), 4)
        for group, texts in about.formats.items():
            formats += self.string(group) + self.number(len(texts), 4)
            formats += b"".join(self.sized(each, 8) for each in texts)
        own = b"".join(self.sized(each, 8) for each in about.ftrace_formats)
        header = b"header_page\0" + self.sized(about.header_page, 8)
        return {
            _HEADER_INFO: header + b"header_event\0" + self.sized(about.header_event, 8),
            _FTRACE_EVENTS: self.number(len(about.ftrace_formats), 4) + own,
            _EVENT_FORMATS: formats,
            _KALLSYMS: self.sized(about.kallsyms, 4),
            _PRINTK: self.sized(about.printk_formats, 4),
            _CMDLINES: self.sized(about.cmdlines, 8),
        }

    def version_6(
        self,
        sections: Mapping[int, bytes],
        options: Sequence[tuple[int, bytes]],
        buffers: Sequence[tuple[int, bytes]],
    ) -> bytes:
        """Return a file of version 6."""
        head = self.begin(6) + b"".join(sections.values()) + self.number(len(buffers), 4)
        head += b"options  \0" + b"".join(self.option(*each) for each in options)
        head += self.number(_DONE, 2) + b"flyrecord\0"
        at = _aligned(len(head) + 16 * len(buffers))
        for _, pages in buffers:
            head += self.number(at, 8) + self.number(len(pages), 8)
            at += len(pages)
        return head.ljust(_aligned(len(head)), b"\0") + b"".join(pages for _, pages in buffers)

    def version_7(
        self,
        sections: Mapping[int, bytes],
        options: Sequence[tuple[int, bytes]],
        buffers: Sequence[tuple[int, bytes]],
        clock: str,
    ) -> bytes:
        """Return a file of version 7, without compression."""
        whole = self.begin(7) + self.string("none") + self.string("")
        first = len(whole)
        whole += self.number(0, 8)  # the place of the options, which come last
        found = b""
        for kind, content in sections.items():
            found += self.option(kind, self.number(len(whole), 8))
            whole += self._section(kind, len(content)) + content
        found += b"".join(self.option(*each) for each in options)
        found += self.option(_CPUCOUNT, self.number(len(buffers), 4))
        begins = len(whole)
        at = _aligned(begins + _SECTION_HEADER)
        pages = b"".join(each for _, each in buffers)
        whole += self._section(_BUFFER, at - begins - _SECTION_HEADER + len(pages))
        whole = whole.ljust(at, b"\0") + pages
        buffer = self.number(begins, 8) + self.string("") + self.string(clock)
        buffer += self.number(RB_PAGE_SIZE, 4) + self.number(len(buffers), 4)
        for cpu, each in buffers:
            buffer += self.number(cpu, 4) + self.number(at, 8) + self.number(len(each), 8)
            at += len(each)
        found += self.option(_BUFFER, buffer) + self.option(_DONE, self.number(0, 8))
        place = self.number(len(whole), 8)
        whole += self._section(_DONE, len(found)) + found
        return whole[:first] + place + whole[first + 8 :]

    def _section(self, kind: int, size: int) -> bytes:
        """Return the header of a section: not compressed, without a description."""
        return self.number(kind, 2) + self.number(0, 2) + self.number(0, 4) + self.number(size, 8)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
