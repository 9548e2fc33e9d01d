"""Compressed data of kernels, modules and packages, as a bounded stream.

Compressed data is untrusted: a few kilobytes may claim gigabytes. Output comes in pieces of a
few megabytes, so that a reader can stop at any time, and no decoder may use more than
`MEMORY` bytes for itself.

Sources: RFC 1952 (gzip), the .xz file format 1.2, RFC 8878 (zstd), lz4_Frame_format.md for the
legacy frame, which the kernel's build writes; lib/decompress_unlzo.c of Linux for lzop's format.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

PIECE = 1 << 20
"""Bytes of input at a time, and of output if the decoder has a limit for it."""

MEMORY = 256 << 20
"""Limit for the memory of a decoder, in bytes; a kernel's needs up to 128 MB."""

_ZSTD_INPUT = 1 << 10
"""Bytes of zstd data at a time: its decoder has no limit for output, and a block of 4 bytes may
stand for 128 kB."""

_LZ4_BLOCK = 8 << 20
"""Bytes in a full block of a legacy LZ4 frame."""

_LZOP_BLOCK = 64 << 20
"""Limit for a block of lzop data, in bytes; lzop makes blocks of 256 kB."""

_LZOP_UNPACKED, _LZOP_PACKED = (0x1, 0x100), (0x2, 0x200)
"""Flags of lzop data with checksums of the unpacked and the packed bytes of each block."""

_LZOP_FILTER = 0x800


class CorruptError(Exception):
    """The data ends too early or violates its format; the text is a clause."""


class MissingError(Exception):
    """The data needs a package that is not installed; the text is a clause."""


class _Decoder(Protocol):
    """A decoder of the standard library, one for each stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zlib:
    """gzip by zlib, with the methods of the other decoders."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)  # with a gzip header
        self._left = b""

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._left

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        piece = self._decoder.decompress(self._left + data, max_length)
        self._left = self._decoder.unconsumed_tail
        return piece


def _decoded(new: Callable[[], _Decoder]) -> Callable[[memoryview], Iterator[bytes]]:
    """Return a stream of the decoder that `new` makes."""

    def stream(data: memoryview) -> Iterator[bytes]:
        decoder, at = new(), 0
        try:
            while not decoder.eof:
                piece = b""
                if decoder.needs_input:
                    piece, at = bytes(data[at : at + PIECE]), at + PIECE
                    if not piece:
                        raise CorruptError("it ends too early")
                if out := decoder.decompress(piece, PIECE):
                    yield out
        except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise CorruptError(str(error) or "the data is invalid") from error
        except MemoryError as error:
            raise CorruptError("it needs too much memory") from error

    return stream


def _zstd(data: memoryview) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise MissingError(_needs("zstd", "zstandard")) from error
    try:
        decoder = zstandard.ZstdDecompressor(max_window_size=MEMORY).decompressobj()
        at = 0
        while not decoder.eof:
            if at >= len(data):
                raise CorruptError("it ends too early")
            if piece := decoder.decompress(data[at : at + _ZSTD_INPUT]):
                yield piece
            at += _ZSTD_INPUT
    except (zstandard.ZstdError, MemoryError) as error:
        raise CorruptError(str(error)) from error


def _lz4(data: memoryview) -> Iterator[bytes]:
    try:
        from cramjam import DecompressionError, lz4
    except ImportError as error:
        raise MissingError(_needs("LZ4", "cramjam")) from error
    at, unpacked = 4, bytearray(_LZ4_BLOCK)
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        # After the last block, the kernel's build appends the unpacked size: no block is so short
        # that it would be one, since a block of n bytes never takes more than n + n/255 + 16.
        if not size or size > len(data) - at - 4:
            if len(data) - at <= 4:
                return
            raise CorruptError(f"a block of {size} bytes goes beyond its end")
        try:
            block = bytes(data[at + 4 : at + 4 + size])
            count = lz4.decompress_block_into(block, unpacked, output_len=_LZ4_BLOCK)
        except DecompressionError as error:
            raise CorruptError(f"an LZ4 block of {size} bytes is invalid") from error
        yield bytes(memoryview(unpacked)[:count])
        at += 4 + size
        if count < _LZ4_BLOCK:
            return
    if at != len(data):
        raise CorruptError("it ends too early")


def _lzo(data: memoryview) -> Iterator[bytes]:
    try:
        from lzallright import InputNotConsumed, LZOCompressor, LZOError
    except ImportError as error:
        raise MissingError(_needs("LZO", "lzallright")) from error
    flags, at = _lzop_header(data)
    unpacked_sums = sum(4 for flag in _LZOP_UNPACKED if flags & flag)
    packed_sums = sum(4 for flag in _LZOP_PACKED if flags & flag)
    while size := _number(data, at):
        packed = _number(data, at + 4)
        if not 0 < packed <= size <= _LZOP_BLOCK:
            raise CorruptError(f"a block of {packed} bytes claims to have {size}")
        start = at + 8 + unpacked_sums + (packed_sums if packed < size else 0)
        at = start + packed
        if at > len(data):
            raise CorruptError("it ends too early")
        block = bytes(data[start:at])
        if packed < size:
            try:
                block = LZOCompressor.decompress(block, size)
            except (LZOError, InputNotConsumed) as error:
                raise CorruptError(f"an LZO block of {packed} bytes is invalid") from error
        if len(block) != size:
            raise CorruptError(f"an LZO block has {len(block)} bytes instead of {size}")
        yield block


def _lzop_header(data: memoryview) -> tuple[int, int]:
    """Return the flags of lzop data, and the offset of its first block."""
    version = _number(data, 9, 2)
    new = version >= 0x940  # which has the version needed to unpack, the level and a longer time
    at = 9 + (6 if new else 4) + (2 if new else 1)
    flags = _number(data, at)
    if flags & _LZOP_FILTER:
        raise CorruptError("it has a filter, which is not supported")
    at += 4 + (12 if new else 8)
    return flags, at + 1 + _number(data, at, 1) + 4


def _number(data: memoryview, at: int, size: int = 4) -> int:
    """Return the big-endian number of `size` bytes at `at`. Raises `CorruptError`."""
    if at + size > len(data):
        raise CorruptError("it ends too early")
    return int.from_bytes(data[at : at + size], "big")


def _needs(format: str, package: str) -> str:
    return f"{format} needs the package {package}: pip install 'dynftrace[kernels]'"


@dataclass(frozen=True, slots=True)
class Format:
    """A compression: the first bytes of its data, and its decoder."""

    name: str
    magic: bytes
    """The first bytes, with which all its data begins."""
    start: re.Pattern[bytes]
    """Matches a few more bytes."""
    stream: Callable[[memoryview], Iterator[bytes]]
    """Returns the unpacked bytes in pieces. Raises `CorruptError` and `MissingError`; data after
    the end of the stream is ignored."""


FORMATS = (
    Format("gzip", b"\x1f\x8b\x08", re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"), _decoded(_Zlib)),
    Format(
        "xz",
        b"\xfd7zXZ",
        re.compile(rb"\xfd7zXZ\x00\x00"),
        _decoded(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)),
    ),
    Format("bzip2", b"BZh", re.compile(rb"BZh[1-9]1AY&SY"), _decoded(bz2.BZ2Decompressor)),
    # Default properties, a dictionary of 64 kB to 128 MB, and a size that is unknown or below 4 GB.
    Format(
        "lzma",
        b"\x5d\x00\x00",
        re.compile(rb"\x5d\x00\x00[\x00-\xff][\x00-\x08](?:\xff{8}|[\x00-\xff]{4}\x00{4})", re.S),
        _decoded(lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MEMORY)),
    ),
    Format("zstd", b"\x28\xb5\x2f\xfd", re.compile(rb"\x28\xb5\x2f\xfd"), _zstd),
    Format("lz4", b"\x02\x21\x4c\x18", re.compile(rb"\x02\x21\x4c\x18"), _lz4),
    Format("lzo", b"\x89LZO", re.compile(rb"\x89LZO\x00\x0d\x0a\x1a\x0a"), _lzo),
)


def format_of(data: memoryview) -> Format | None:
    """Return the format that `data` begins with, or None."""
    head = bytes(data[:16])
    return next((each for each in FORMATS if each.start.match(head)), None)
