"""Unpacking a file until the kernel or module in it can be read.

A kernel comes in many wrappers: compressed, behind a boot header that says where its payload is,
in a program that unpacks itself, or in a package. `read` removes them one by one. What remains is
an ELF file, or a flat image: the bytes of memory without any header. Unlike a wrapper, a flat image
has symbols.

Sources: for the boot header `HdrS` the kernel's boot protocol, version 2.08 and later.
Self-extracting kernels of other kinds have no common header, so their payload is found by its
first bytes, as scripts/extract-vmlinux does.
"""

from __future__ import annotations

import heapq
import mmap
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..errors import ImageError
from .compression import FORMATS, CorruptError, Format, MissingError, format_of
from .package import MAGIC as PACKAGE
from .package import kernel_in

MAPPED = 1 << 27
"""Size in bytes above which a file is mapped instead of read."""

LIMIT = 256 << 20
"""Limit for unpacked data, in bytes; a large kernel without debug information has 80 MB."""

ELF = b"\x7fELF"

RPM = b"\xed\xab\xee\xdb"
"""First bytes of an RPM package."""

DIGITS = b"".join(b"%d\0" % digit for digit in range(10))
"""The tokens of the ten digits in the table with which kallsyms are compressed: in each kernel
that has symbols, some function's name contains each of them."""

_WRAPPERS = 4
"""Maximum number of wrappers around a kernel."""

_TRIED = 32
"""Maximum number of places tried as the start of a payload."""

_PIECE = 4 << 20
"""Bytes searched for the start of a payload at a time."""

_REAL = 1 << 16
"""Minimum bytes that a payload unpacks to; a smaller one is a false match."""

_HEAD = 1 << 17
"""Bytes of each wrapper that are kept, to recognise its architecture."""

_BOOT = b"HdrS"
_BOOT_AT = 0x202


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The innermost file."""

    content: bytes | bytearray | mmap.mmap
    steps: tuple[str, ...] = ()
    """The wrappers removed, outermost first, such as `xz at 0x52cc`."""
    wrappers: tuple[bytes, ...] = ()
    """The first bytes of each wrapper, outermost first."""

    @property
    def flat(self) -> bool:
        """Whether it is not an ELF file, but may be memory of a kernel."""
        return self.content[:4] != ELF and has_symbols(self.content)


_last: tuple[tuple[object, ...], Unpacked] | None = None
"""The file unpacked last, kept because a caller that recognises a file usually loads it next."""


def read(path: Path | str) -> Unpacked:
    """Return the kernel or module in the file at `path`.

    A file without either is returned unchanged. Raises `ImageError` if the file cannot be read, or
    if its payload is damaged, too large, or packed in a way that is not supported.
    """
    global _last
    name = str(path)
    try:
        with open(name, "rb", opener=_no_wait) as file:
            descriptor = file.fileno()
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ImageError(name, "not a regular file")
            if status.st_size == 0:
                raise ImageError(name, "not an ELF file: it is empty")
            key = (name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if _last is not None and _last[0] == key:
                return _last[1]
            if status.st_size > MAPPED:
                content: bytes | mmap.mmap = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            else:
                content = file.read(status.st_size)
    except OSError as error:
        raise ImageError(name, error.strerror or "cannot be read") from error
    except ValueError as error:
        raise ImageError(name, "invalid file name: it contains a NUL") from error
    found = innermost(name, content)
    # Plain files are read anew: a test or a build may write two within one tick of the clock.
    _last = (key, found) if found.steps else None
    return found


def _no_wait(path: str, flags: int) -> int:
    """Open a file; a FIFO would otherwise keep open() waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def heads(path: Path | str) -> Iterator[bytes]:
    """Yield the first bytes of the file at `path`, and of each file wrapped in it.

    Unpacks only these bytes, and raises no errors: `read` reports them.
    """
    try:
        with open(path, "rb", opener=_no_wait) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            content: bytes | bytearray | mmap.mmap
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for _ in range(_WRAPPERS):
            yield bytes(content[:_HEAD])
            view = memoryview(content)
            format, at = format_of(view), 0
            if content[: len(PACKAGE)] == PACKAGE:
                content = kernel_in(view, LIMIT)[1]
                continue
            if content[_BOOT_AT : _BOOT_AT + 4] == _BOOT:
                at = _payload(view)[0]
                format = format_of(view[at:])
            if format is None:
                return
            content = next(format.stream(view[at:]), b"")
    except (OSError, ValueError, CorruptError, MissingError):
        return


def has_symbols(content: bytes | bytearray | mmap.mmap) -> bool:
    """Return whether `content` may be a kernel or module itself, and not a wrapper of one."""
    return content.rfind(b".symtab\0") >= 0 or content.find(DIGITS) >= 0


def innermost(path: str, content: bytes | bytearray | mmap.mmap) -> Unpacked:
    """Remove the wrappers of `content`; errors name `path`. Raises `ImageError` as `read`."""
    steps: list[str] = []
    wrappers: list[bytes] = []
    for _ in range(_WRAPPERS):
        found = _unwrapped(path, content)
        if found is None:
            break
        wrappers.append(bytes(content[:_HEAD]))
        steps.append(found[0])
        content = found[1]
    return Unpacked(content, tuple(steps), tuple(wrappers))


def _unwrapped(
    path: str, content: bytes | bytearray | mmap.mmap
) -> tuple[str, bytes | bytearray] | None:
    """Remove one wrapper; return its description and its content, or None without a wrapper."""
    view = memoryview(content)
    if content[: len(PACKAGE)] == PACKAGE:
        try:
            return kernel_in(view, LIMIT)
        except (CorruptError, MissingError) as error:
            raise ImageError(path, str(error)) from error
    if content[: len(RPM)] == RPM:
        raise ImageError(path, "RPM packages are not supported: unpack it with rpm2cpio and cpio")
    format = format_of(view)
    if format is not None:
        return format.name, _unpacked(path, view, format, 0)
    if content[_BOOT_AT : _BOOT_AT + 4] == _BOOT and content[:4] != ELF:
        return _booted(path, view)
    if has_symbols(content):
        return None
    return _searched(path, content)


def _unpacked(path: str, data: memoryview, format: Format, offset: int) -> bytearray:
    """Return the unpacked `data`, which begins at `offset` of the file."""
    out = bytearray()
    where = f"at {offset:#x}" if offset else "in it"
    try:
        for piece in format.stream(data):
            if len(out) + len(piece) > LIMIT:
                raise ImageError(
                    path, f"the {format.name} data {where} unpacks to more than {LIMIT >> 20} MB"
                )
            out += piece
    except CorruptError as error:
        raise ImageError(path, f"the {format.name} data {where} is damaged: {error}") from error
    except MissingError as error:
        raise ImageError(path, str(error)) from error
    return out


def _payload(view: memoryview) -> tuple[int, int]:
    """Return offset and size of the payload that a boot header names."""
    sectors, offset, size = (
        int.from_bytes(view[at : at + width], "little")
        for at, width in ((0x1F1, 1), (0x248, 4), (0x24C, 4))
    )
    return ((sectors or 4) + 1) * 512 + offset, size


def _booted(path: str, view: memoryview) -> tuple[str, bytearray]:
    """Return the payload that a boot header names."""

    version = int.from_bytes(view[0x206:0x208], "little")
    if version < 0x208:
        raise ImageError(path, f"its boot protocol {version:#x} is too old to name a payload")
    start, size = _payload(view)
    if start + size > len(view):
        raise ImageError(
            path,
            f"truncated: its payload ends at {start + size:#x}, but the file ends at "
            f"{len(view):#x}",
        )
    data = view[start : start + size]
    format = format_of(data)
    if format is None:
        head = bytes(data[:4]).hex(" ") or "nothing"
        raise ImageError(path, f"unknown compression: its payload begins with {head}", offset=start)
    return f"{format.name} at {start:#x}", _unpacked(path, data, format, start)


def _starts(content: bytes | bytearray | mmap.mmap) -> Iterator[tuple[int, Format]]:
    """Yield places at which compressed data may begin, ascending."""
    # A regular expression for all formats would take minutes for a large file of another kind.
    every = (_places(content, number, each) for number, each in enumerate(FORMATS))
    for at, number in islice(heapq.merge(*every), _TRIED):
        yield at, FORMATS[number]


def _places(
    content: bytes | bytearray | mmap.mmap, number: int, format: Format
) -> Iterator[tuple[int, int]]:
    """Yield places at which data of `format` may begin, ascending, each with `number`."""
    more = len(format.magic) - 1
    for first in range(0, len(content), _PIECE):
        piece, at = bytes(content[first : first + _PIECE + more]), -1
        while (at := piece.find(format.magic, at + 1)) >= 0:
            if format.start.match(content, first + at):
                yield first + at, number


def _searched(
    path: str, content: bytes | bytearray | mmap.mmap
) -> tuple[str, bytes | bytearray] | None:
    """Return the first payload that is a kernel; None if nothing in the file can be one.

    Raises `ImageError` if what looks like the payload cannot be unpacked.
    """
    if len(content) > LIMIT:
        return None
    view, left = memoryview(content), LIMIT
    why: ImageError | None = None
    for at, format in _starts(content):
        out = bytearray()
        try:
            for piece in format.stream(view[at:]):
                out += piece
                if len(out) > left:
                    raise ImageError(
                        path,
                        f"the {format.name} data at {at:#x} unpacks to more than {LIMIT >> 20} MB",
                    )
        except CorruptError as error:
            if len(out) >= _REAL and why is None:
                why = ImageError(path, f"the {format.name} data at {at:#x} is damaged: {error}")
        except MissingError as error:
            why = why or ImageError(path, str(error))
        else:
            if len(out) >= _REAL and (out[:4] == ELF or has_symbols(out)):
                return f"{format.name} at {at:#x}", out
        left -= len(out)
    if why is not None:
        raise why
    return None
