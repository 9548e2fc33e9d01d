"""The sections of a trace.dat file, versions 6 and 7.

The file is untrusted: every offset and every size is checked against the file, and unpacked
data against a limit. Sections that an older or newer trace-cmd adds are skipped. Source: the
manual pages trace-cmd.dat.v6 and trace-cmd.dat.v7 of trace-cmd 3.1, in whose terms the sections
are named.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from ...errors import TraceFileError
from ...payload.compression import FORMATS, CorruptError, MissingError

MAGIC = b"\x17\x08\x44tracing"

MOST_DATA = 1 << 30
"""Limit for the pages of one buffer, in bytes: some 40 million function events."""

MOST_TEXT = 1 << 28
"""Limit for any other section, in bytes: kallsyms of a large kernel has 20 MB."""

MOST_CPUS = 256
"""Maximum number of CPUs in a table of events."""

_PAGE_SIZES = [1 << shift for shift in range(12, 23)]
"""Valid sizes of a sub-buffer."""

_SECTION_HEADER = 16


ByteOrder: TypeAlias = Literal["little", "big"]


class Option(IntEnum):
    """Numbers of the options that are read; others are skipped."""

    DONE = 0
    DATE = 1
    CPUSTAT = 2
    BUFFER = 3
    TRACECLOCK = 4
    UNAME = 5
    OFFSET = 7
    CPUCOUNT = 8
    TSC2NSEC = 14
    HEADER_INFO = 16
    FTRACE_EVENTS = 17
    EVENT_FORMATS = 18
    KALLSYMS = 19
    PRINTK = 20
    CMDLINES = 21
    BUFFER_TEXT = 22


@dataclass(frozen=True, slots=True)
class Pages:
    """Offset and size in bytes of one CPU's pages in the file; both may be 0."""

    cpu: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """The buffers of a trace instance; the top instance has the name ""."""

    name: str
    page_size: int
    pages: tuple[Pages, ...]
    packed: bool = False
    """Whether the pages are compressed, in chunks."""


@dataclass(slots=True)
class Header:
    """The content of the file except the pages; the texts are those of tracefs."""

    version: int
    byteorder: ByteOrder
    page_size: int
    compression: str = "none"
    header_page: str = ""
    formats: list[tuple[str, str]] = field(default_factory=list)
    """System and `format` file of each event."""
    kallsyms: bytes = b""
    printk_formats: str = ""
    cmdlines: str = ""
    cpus: int = 0
    clock: str = ""
    uname: str = ""
    stats: list[str] = field(default_factory=list)
    """The files per_cpu/cpuN/stats, each after a line with the number of the CPU."""
    shift_ns: int = 0
    """Nanoseconds to add to every time stamp."""
    scale: tuple[int, int, int] | None = None
    """Multiplier, shift and offset that turn TSC cycles into ns."""
    buffers: list[Buffer] = field(default_factory=list)
    text: bool = False
    """Whether the file has the text of a latency tracer instead of pages."""


class TraceFile:
    """An open trace.dat. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open and read everything but the pages. Raises `TraceFileError`."""
        self._path = path
        try:
            # Opening a pipe would block.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise self.damaged("not a regular file")
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise self.damaged(error.strerror or "cannot be opened") from error
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.header = _Reader(self, self._file, self._size).header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def damaged(self, reason: str, offset: int | None = None) -> TraceFileError:
        """Return the error of this file."""
        return TraceFileError(str(self._path), reason, offset)

    def data(self, buffer: Buffer) -> Iterator[tuple[int, bytes]]:
        """Yield each CPU of `buffer` with its pages. Raises `TraceFileError`."""
        total = 0
        for pages in buffer.pages:
            if not pages.size:
                continue
            if pages.offset > self._size or pages.size > self._size - pages.offset:
                raise self.damaged(
                    f"cut off: CPU {pages.cpu} has {pages.size:,} bytes there", pages.offset
                )
            room = MOST_DATA - total
            if pages.size > room:
                raise self._too_much()
            if buffer.packed:
                data = self._chunks(pages.offset, room)
            else:
                data = self.read(pages.offset, pages.size)
            total += len(data)
            yield pages.cpu, data

    def _too_much(self) -> TraceFileError:
        return self.damaged(
            f"more than {MOST_DATA >> 20} MB of events: cut a part out with trace-cmd split"
        )

    def read(self, at: int, size: int) -> bytes:
        """Return `size` bytes. Raises `TraceFileError` if the file is too short."""
        with self.reads():
            self._file.seek(at)
            data = self._file.read(size) if size <= self._size else b""
        if len(data) != size:
            raise self.damaged("cut off", at)
        return data

    def _chunks(self, at: int, room: int) -> bytes:
        """Unpack the chunks of one CPU, at most `room` bytes."""
        order = self._order
        count = int.from_bytes(self.read(at, 4), order)
        at += 4
        found: list[bytes] = []
        for _ in range(count):
            sizes = self.read(at, 8)
            packed, size = int.from_bytes(sizes[:4], order), int.from_bytes(sizes[4:], order)
            if size > room:
                raise self._too_much()
            found.append(self.unpacked(self.read(at + 8, packed), size, at + 8))
            room -= size
            at += 8 + packed
        return b"".join(found)

    @property
    def _order(self) -> ByteOrder:
        return self.header.byteorder

    def unpacked(self, data: bytes, size: int, offset: int, name: str | None = None) -> bytes:
        """Return the `size` bytes that `data` unpacks to. Raises `TraceFileError`."""
        name = name or self.header.compression
        try:
            if name == "zlib":
                decoder = zlib.decompressobj()
                found = decoder.decompress(data, size + 1)
            elif name == "zstd":
                found = _zstd(data, size)
            else:
                raise self.damaged(f"compressed by {name!r}: only zlib and zstd are supported")
        except (zlib.error, CorruptError) as error:
            raise self.damaged(f"damaged {name} data ({error})", offset) from error
        except MissingError as error:
            raise self.damaged(str(error)) from error
        if len(found) != size:
            raise self.damaged(f"{name} data of the wrong size", offset)
        return found

    @contextmanager
    def reads(self) -> Iterator[None]:
        """Turn errors of the host, while it reads the file, into errors of the file."""
        try:
            yield
        except OSError as error:
            raise self.damaged(error.strerror or "cannot be read") from error


def _zstd(data: bytes, size: int) -> bytes:
    (format_,) = (each for each in FORMATS if each.name == "zstd")
    found = bytearray()
    for piece in format_.stream(memoryview(data)):
        found += piece
        if len(found) > size:
            break
    return bytes(found)


class _Part:
    """A part of the file, or of an unpacked section, read from its start."""

    def __init__(self, file: TraceFile, data: bytes, order: ByteOrder, at: int) -> None:
        """`at` is the offset of the data in the file, for messages."""
        self._file, self._data, self._order, self._base = file, data, order, at
        self.at = 0

    @property
    def left(self) -> int:
        """Number of unread bytes."""
        return len(self._data) - self.at

    def take(self, size: int, what: str) -> bytes:
        """Read `size` bytes; `what` is named in errors. Raises `TraceFileError`."""
        if size > self.left:
            raise self._file.damaged(f"cut off in {what}", self._base + self.at)
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, size: int, what: str) -> int:
        """Read an unsigned number of `size` bytes. Raises `TraceFileError`."""
        return int.from_bytes(self.take(size, what), self._order)

    def sized(self, size: int, what: str) -> bytes:
        """Return data that follows its length, a number of `size` bytes."""
        return self.take(self.number(size, what), what)

    def string(self, what: str) -> str:
        """Return a string that ends with a zero byte."""
        end = self._data.find(b"\0", self.at)
        if end < 0:
            raise self._file.damaged(f"cut off in {what}", self._base + self.at)
        found = self._data[self.at : end]
        self.at = end + 1
        return _text(found)

    def expect(self, word: bytes) -> None:
        """Skip `word`. Raises `TraceFileError` if it does not follow."""
        if self.take(len(word), repr(word)) != word:
            name = word.rstrip(b"\0").decode()
            raise self._file.damaged(f"has no {name} here", self._base + self.at - len(word))


class _Stream(_Part):
    """A part of the file that is read on demand; `at` is an offset from its start."""

    def __init__(
        self, owner: TraceFile, file: BinaryIO, order: ByteOrder, at: int, end: int
    ) -> None:
        super().__init__(owner, b"", order, at)
        self._open, self._end = file, end

    @property
    def left(self) -> int:
        return max(self._end - self._base - self.at, 0)

    def take(self, size: int, what: str) -> bytes:
        if size > self.left:
            raise self._file.damaged(f"cut off in {what}", self._base + self.at)
        if size > MOST_TEXT:
            raise self._file.damaged(f"{what} of {size:,} bytes", self._base + self.at)
        with self._file.reads():
            self._open.seek(self._base + self.at)
            found = self._open.read(size)
        if len(found) != size:
            raise self._file.damaged(f"cut off in {what}", self._base + self.at)
        self.at += size
        return found

    def string(self, what: str) -> str:
        begins = self.at
        part = _Part(self._file, self.take(min(self.left, 1 << 12), what), self._order, begins)
        found = part.string(what)
        self.at = begins + part.at
        return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


class _Reader:
    """Reads the header of a file."""

    def __init__(self, owner: TraceFile, file: BinaryIO, size: int) -> None:
        self._owner, self._file, self._size = owner, file, size
        self._order: ByteOrder = "little"

    def header(self) -> Header:
        """Read and return the header. Raises `TraceFileError`."""
        owner = self._owner
        start = self._part(0, min(self._size, 1 << 10))
        if start.left < len(MAGIC) or start.take(len(MAGIC), "its magic") != MAGIC:
            raise owner.damaged("not a trace.dat file: record one with trace-cmd record")
        version = start.string("its version")
        if version not in ("6", "7"):
            raise owner.damaged(f"version {version!r}: only 6 and 7 are supported")
        self._order = "big" if start.number(1, "its byte order") else "little"
        start.take(1, "its size of a long")  # of user space; the kernel's is in the pages' layout
        begins = start.at
        start = self._part(begins, min(self._size - begins, 1 << 10))
        page_size = start.number(4, "its page size")
        header = Header(int(version), self._order, page_size)
        if page_size not in _PAGE_SIZES:
            raise owner.damaged(f"a page size of {page_size:,} bytes", begins)
        if version == "6":
            self._version_6(header, begins + start.at)
        else:
            header.compression = start.string("its compression")
            start.string("its compression")
            self._options_7(header, start.number(8, "its options"))
        for buffer in header.buffers:
            self._check(buffer)
        return header

    def _part(self, at: int, size: int) -> _Part:
        if at > self._size:
            raise self._owner.damaged(f"cut off: a section is at offset {at:#x}")
        self._file.seek(at)
        with self._owner.reads():
            return _Part(self._owner, self._file.read(size), self._order, at)

    def _check(self, buffer: Buffer) -> None:
        if buffer.page_size not in _PAGE_SIZES:
            raise self._owner.damaged(f"a sub-buffer of {buffer.page_size:,} bytes")
        worst = max((each.cpu for each in buffer.pages), default=0)
        if worst >= MOST_CPUS:
            raise self._owner.damaged(
                f"has a CPU {worst}: events of CPUs up to {MOST_CPUS - 1} can be shown"
            )

    # Version 6: one section after the other

    def _version_6(self, header: Header, at: int) -> None:
        part = _Stream(self._owner, self._file, self._order, at, self._size)
        self._header_info(header, part)
        self._ftrace_events(header, part)
        self._event_formats(header, part)
        header.kallsyms = part.sized(4, "kallsyms")
        header.printk_formats = _text(part.sized(4, "printk_formats"))
        header.cmdlines = _text(part.sized(8, "saved_cmdlines"))
        header.cpus = self._cpus(part)
        self._buffers_6(header, part, header.cpus, "")

    def _cpus(self, part: _Part) -> int:
        count = part.number(4, "the number of CPUs")
        if count > MOST_CPUS:
            raise self._owner.damaged(
                f"has {count:,} CPUs: events of {MOST_CPUS} CPUs can be shown"
            )
        return count

    def _buffers_6(self, header: Header, part: _Part, cpus: int, name: str) -> None:
        """Read the options, and the offsets of the pages."""
        others: list[tuple[int, str, int]] = []
        kind = part.take(10, "the kind of its data")
        if kind == b"options  \0":
            while number := part.number(2, "its options"):
                data = part.sized(4, "its options")
                if number == Option.BUFFER:
                    option = self._option(data)
                    offset, own = option.number(8, "a buffer"), option.string("a buffer")
                    # Newer files have a clock, and perhaps fewer CPUs than the top instance.
                    if option.left:
                        option.string("a buffer")
                    count = self._cpus(option) if option.left >= 4 else cpus
                    others.append((offset, own, count))
                else:
                    self._plain_option(header, number, data)
            kind = part.take(10, "the kind of its data")
        if kind == b"latency  \0":
            header.text = True
            return
        if kind != b"flyrecord\0":
            raise self._owner.damaged("has neither events nor the text of a latency tracer")
        header.buffers.append(self._places(header, part, cpus, name))
        for offset, own, count in others:
            at = self._part(offset, 10 + 16 * count)
            at.expect(b"flyrecord\0")
            header.buffers.append(self._places(header, at, count, own))

    def _places(self, header: Header, part: _Part, cpus: int, name: str) -> Buffer:
        numbers = [
            Pages(cpu, part.number(8, "its events"), part.number(8, "its events"))
            for cpu in range(cpus)
        ]
        return Buffer(name, header.page_size, tuple(numbers))

    def _option(self, data: bytes) -> _Part:
        return _Part(self._owner, data, self._order, 0)

    # Version 7: options with the offsets of sections

    def _options_7(self, header: Header, at: int) -> None:
        seen: set[int] = set()
        while at and at not in seen:
            seen.add(at)
            part, at = self._section(header, at), 0
            while part.left:
                number, data = part.number(2, "its options"), part.sized(4, "its options")
                if number == Option.DONE:
                    at = self._option(data).number(8, "its options")
                    break
                self._option_7(header, number, data)

    def _option_7(self, header: Header, number: int, data: bytes) -> None:
        sections: dict[int, Callable[[Header, _Part], None]] = {
            Option.HEADER_INFO: self._header_info,
            Option.FTRACE_EVENTS: self._ftrace_events,
            Option.EVENT_FORMATS: self._event_formats,
            Option.KALLSYMS: self._kallsyms,
            Option.PRINTK: self._printk,
            Option.CMDLINES: self._cmdlines,
        }
        option = self._option(data)
        if (read := sections.get(number)) is not None:
            read(header, self._section(header, option.number(8, "its options")))
        elif number == Option.BUFFER:
            header.buffers.append(self._buffer_7(option))
        elif number == Option.BUFFER_TEXT:
            header.text = True
        elif number == Option.CPUCOUNT:
            header.cpus = self._cpus(option)
        else:
            self._plain_option(header, number, data)

    def _section(self, header: Header, at: int) -> _Part:
        """Return the content of the section at offset `at`."""
        head = self._part(at, _SECTION_HEADER)
        head.number(2, "a section")
        flags = head.number(2, "a section")
        head.number(4, "a section")
        size = head.number(8, "a section")
        begins = at + _SECTION_HEADER
        if size > self._size - begins:
            raise self._owner.damaged("a section is cut off", at)
        if size > MOST_TEXT:
            raise self._owner.damaged(f"a section of {size:,} bytes", at)
        if not flags & 1:
            return self._part(begins, size)
        packed = self._part(begins, size)
        inside, whole = packed.number(4, "a section"), packed.number(4, "a section")
        if whole > MOST_TEXT:
            raise self._owner.damaged(f"a section of {whole:,} bytes", at)
        data = packed.take(inside, "a section")
        data = self._owner.unpacked(data, whole, begins + 8, header.compression)
        return _Part(self._owner, data, self._order, begins)

    def _buffer_7(self, option: _Part) -> Buffer:
        at, name = option.number(8, "a buffer"), option.string("a buffer")
        option.string("a buffer")  # its clock
        size, count = option.number(4, "a buffer"), self._cpus(option)
        pages = tuple(
            Pages(*(option.number(each, "a buffer") for each in (4, 8, 8))) for _ in range(count)
        )
        head = self._part(at, _SECTION_HEADER)
        head.number(2, "a buffer")
        return Buffer(name, size, pages, bool(head.number(2, "a buffer") & 1))

    # The content of sections

    def _header_info(self, header: Header, part: _Part) -> None:
        part.expect(b"header_page\0")
        header.header_page = _text(part.sized(8, "header_page"))
        part.expect(b"header_event\0")
        part.sized(8, "header_event")

    def _ftrace_events(self, header: Header, part: _Part) -> None:
        for _ in range(part.number(4, "the formats of ftrace")):
            header.formats.append(("ftrace", _text(part.sized(8, "the formats of ftrace"))))

    def _event_formats(self, header: Header, part: _Part) -> None:
        for _ in range(part.number(4, "the formats of events")):
            system = part.string("the formats of events")
            for _ in range(part.number(4, "the formats of events")):
                header.formats.append((system, _text(part.sized(8, "the formats of events"))))

    def _kallsyms(self, header: Header, part: _Part) -> None:
        header.kallsyms = part.sized(4, "kallsyms")

    def _printk(self, header: Header, part: _Part) -> None:
        header.printk_formats = _text(part.sized(4, "printk_formats"))

    def _cmdlines(self, header: Header, part: _Part) -> None:
        header.cmdlines = _text(part.sized(8, "saved_cmdlines"))

    def _plain_option(self, header: Header, number: int, data: bytes) -> None:
        """Read an option whose data is a text or a few numbers."""
        text = _text(data.rstrip(b"\0"))
        match number:
            case Option.CPUSTAT:
                header.stats.append(text)
            case Option.TRACECLOCK:
                header.clock = text.partition("[")[2].partition("]")[0] or text
            case Option.UNAME:
                header.uname = text
            case Option.DATE:
                header.shift_ns += 1000 * _integer(text)
            case Option.OFFSET:
                header.shift_ns += _integer(text)
            case Option.CPUCOUNT:
                header.cpus = self._cpus(self._option(data))
            case Option.TSC2NSEC:
                option = self._option(data)
                found = tuple(option.number(size, "TSC2NSEC") for size in (4, 4, 8))
                header.scale = found[0], min(found[1], 63), found[2]


def _integer(text: str) -> int:
    """Return a number as strtoll reads it; 0 for anything else."""
    try:
        value = int(text.strip()[:32], 0)
    except ValueError:
        return 0
    return value if abs(value) < 1 << 63 else 0
