"""The symbols that a kernel carries in its own data: kallsyms.

The tables have no header and, in a stripped kernel, no symbols that say where they are. This module
finds them by their structure. The anchor is the table of tokens, 256 strings with which names are
compressed: every character that occurs in a name and has no token of its own stands for itself, so
the ten digits follow each other there. After it is an index of the tokens. Before it are the names,
each a length and tokens, and the markers: the offset of each 256th name. The count of the names
fits the sizes of all other tables, and all names are read to prove it.

    up to 6.3    offsets, relative_base, num_syms, names, markers, [seqs], tokens, index
    from 6.4     num_syms, names, markers, tokens, index, offsets, relative_base, [seqs]
    from 7.0     num_syms, names, markers, tokens, index, offsets, seqs

An address is its offset plus relative_base. In a kernel whose per-CPU variables are linked at 0,
an offset that is not negative is an absolute address, and others count down from
relative_base - 1. From 7.0 on, an offset counts from its own place. Kernels before 4.6 have
addresses instead of offsets, and so do 32-bit kernels from 7.0 on that cannot be moved.

Source: scripts/kallsyms.c and kernel/kallsyms.c of Linux 4.20 to 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from ..payload.unpack import DIGITS

Content = bytes | bytearray | mmap

TOKENS = 256
BLOCK = 256
"""Names from one marker to the next."""

_LONG = 0x80
"""Bit of a length that is set if its upper bits are in the next byte (since 6.1)."""

_MOST = 1 << 21
"""Limit for the number of symbols."""

_LEAST = 256

_WINDOW = 32 << 20
"""Bytes before the tokens in which the names begin."""

_TRIED = 512
"""Maximum number of places at which to try to read the names."""

_NAME = 512
"""Limit for a name, in bytes (KSYM_NAME_LEN)."""

_ENTRY = 4
"""Bytes of an offset."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of n symbols, and where the other tables are.

    `kind` is the letter that nm prints for a symbol, as a byte, shape (n,). All other numbers
    are offsets in the data.
    """

    names: list[str]
    kind: NDArray[np.uint8]
    count_at: int
    """Offset of num_syms."""
    align: int
    """Alignment of the tables in bytes."""
    end: int = 0
    """Offset of the end of the index of the tokens."""


@dataclass(frozen=True, slots=True)
class Places:
    """The addresses of n symbols, as far as they are known without their base.

    `offset` has shape (n,). `base_at` is the offset of the word relative_base in the data, or None
    without it. Then `offset` has offsets in the data if `placed`, and addresses otherwise.
    """

    offset: NDArray[np.int64]
    base_at: int | None
    pointer_size: int
    placed: bool = False

    def addresses(self, base: int) -> NDArray[np.uint64]:
        """Return the address of each symbol, if relative_base or the data's start is `base`."""
        mask = np.uint64(2 ** (8 * self.pointer_size) - 1)
        start, offset = np.uint64(base), self.offset.view(np.uint64)
        if self.placed:
            return (start + offset) & mask
        if self.base_at is None:
            return offset
        signed = self.offset.astype(np.int32).astype(np.int64)
        if self.pointer_size == 8 and (signed < 0).any():
            down = start - np.uint64(1) - signed.view(np.uint64)
            return np.where(signed >= 0, offset, down)
        return (start + offset) & mask


def find_names(content: Content, byteorder: str, pointer_size: int) -> Names | None:
    """Return the names in `content`, a kernel; None if it has none."""
    raw = np.frombuffer(content, np.uint8)
    at = -1
    while (at := content.find(DIGITS, at + 1)) >= 0:
        for start, index_at, index in _tokens(content, raw, at, byteorder):
            tokens = bytes(content[start:index_at])
            tokens = tokens[: tokens.index(b"\0", int(index[-1])) + 1]
            found = _names(raw, start, index, tokens, byteorder, pointer_size)
            if found is not None:
                return replace(found, end=index_at + 2 * TOKENS)
    return None


def _tokens(
    content: Content, raw: NDArray[np.uint8], digits: int, byteorder: str
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield start of the tokens around `digits`, place of their index, and the index."""
    end = digits
    for _ in range(TOKENS - ord("0")):
        end = content.find(b"\0", end, end + 1 + (1 << 8)) + 1
        if not end:
            return
    layout = np.dtype("u2").newbyteorder("<" if byteorder == "little" else ">")
    for at in range(end, min(end + 8, len(raw) - 2 * TOKENS + 1)):
        index = raw[at : at + 2 * TOKENS].view(layout).astype(np.int64)
        start = digits - int(index[ord("0")])
        if index[0] == 0 and start >= 0 and (np.diff(index) > 0).all():
            stops = np.flatnonzero(raw[start:end] == 0)
            if len(stops) >= TOKENS and (stops[-TOKENS:-1] + 1 == index[1:]).all():
                yield start, at, index


def _up(number: int, align: int) -> int:
    return -(-number // align) * align


def _names(
    raw: NDArray[np.uint8],
    tokens_at: int,
    index: NDArray[np.int64],
    tokens: bytes,
    byteorder: str,
    pointer_size: int,
) -> Names | None:
    """Return the names for the tokens at `tokens_at`."""
    word = np.dtype("u4").newbyteorder("<" if byteorder == "little" else ">")
    first = max(tokens_at - _WINDOW, 0)
    first += (tokens_at - first) % 4
    words = raw[first:tokens_at].view(word).astype(np.int64)
    for align in dict.fromkeys((pointer_size, 8, 4)):
        rows = np.flatnonzero((words >= _LEAST) & (words <= _MOST))
        rows = rows[(first + rows * 4) % align == tokens_at % align]
        count = words[rows]
        marks = -(-count // BLOCK)
        for extra in (0, 3):
            before = tokens_at - -(-extra * count // align) * align
            start = before - -(-4 * marks // align) * align
            # Both tables are inside, and the markers begin with 0.
            names_at = first + rows * 4 + align
            good = (start > names_at) & (start + 4 * marks <= tokens_at)
            at = np.where(good, (start - first) // 4, 0)
            good &= words[at] == 0
            last = np.where(good, words[np.minimum(at + marks - 1, len(words) - 1)], 0)
            good &= (names_at + last < start) & (
                start - names_at - last <= BLOCK * (_NAME + 2) + align
            )
            second = words[np.minimum(at + 1, len(words) - 1)]
            good &= (marks < 2) | ((second >= 2 * BLOCK) & (second <= BLOCK * (_NAME + 2)))
            good &= (marks < 2) | ((last >= (marks - 1) * 2 * BLOCK) & (last >= second))
            for row in np.flatnonzero(good)[:_TRIED].tolist():
                markers = words[int(at[row]) : int(at[row] + marks[row])]
                begin, end = int(names_at[row]), int(start[row])
                found = _cut(raw[begin:end], markers, int(count[row]), index, tokens)
                if found is not None:
                    return Names(*found, first + int(rows[row]) * 4, align)
    return None


def _cut(
    data: NDArray[np.uint8],
    markers: NDArray[np.int64],
    count: int,
    index: NDArray[np.int64],
    tokens: bytes,
) -> tuple[list[str], NDArray[np.uint8]] | None:
    """Return names and kinds of `count` symbols in `data`; None if markers do not fit them."""
    if len(markers) > 1 and (np.diff(markers) < 2 * BLOCK).any():
        return None
    # All blocks are read in parallel, one name of each at a time.
    at = markers.copy()
    starts = np.zeros((len(markers), BLOCK), np.int64)
    sizes = np.zeros((len(markers), BLOCK), np.int64)
    limit = len(data) - 2
    for number in range(min(BLOCK, count)):
        blocks = slice(None) if (len(markers) - 1) * BLOCK + number < count else slice(0, -1)
        here = at[blocks]
        if not len(here) or int(here.max()) > limit:
            return None
        size = data[here].astype(np.int64)
        long = size >= _LONG
        if long.any():
            size = np.where(long, (size & 0x7F) | data[here + 1].astype(np.int64) << 7, size)
        if not (size > 0).all():
            return None
        starts[blocks, number], sizes[blocks, number] = here + 1 + long, size
        at[blocks] = here + 1 + long + size
    if (at[:-1] != markers[1:]).any() or int(at[-1]) > len(data) or int(sizes.max()) > _NAME:
        return None
    return _expanded(data, starts.ravel()[:count], sizes.ravel()[:count], index, tokens)


def _expanded(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    index: NDArray[np.int64],
    tokens: bytes,
) -> tuple[list[str], NDArray[np.uint8]] | None:
    """Return names and kinds, with each token replaced by its text."""
    table = np.frombuffer(tokens, np.uint8)
    lengths = np.diff(np.append(index, len(tokens))) - 1
    codes = data[_ranges(starts, sizes)]
    widths = lengths[codes]
    ends = np.cumsum(np.add.reduceat(widths, np.cumsum(sizes) - sizes))
    begins = ends - np.diff(ends, prepend=0)
    if int(ends[-1]) > _MOST * 64 or (ends - begins > 4 * _NAME).any() or (ends == begins).any():
        return None
    letters = table[_ranges(index[codes], widths)]
    kind = letters[begins].copy()
    if not np.isin(kind, np.frombuffer(_KINDS, np.uint8)).all():
        return None
    clean = np.where((letters > 0x20) & (letters < 0x7F), letters, np.uint8(ord("?")))
    text = clean.tobytes().decode("ascii")
    cuts = zip((begins + 1).tolist(), ends.tolist(), strict=True)
    return [text[start:end] for start, end in cuts], kind


_KINDS = b"ABCDGIRSTUVWNabcdgirstuvwn?-"
"""Letters that nm prints for symbols."""


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of n ranges, one after the other."""
    ends = np.cumsum(sizes)
    shift = np.repeat(starts - (ends - sizes), sizes)
    found: NDArray[np.int64] = np.arange(len(shift), dtype=np.int64) + shift
    return found


def find_places(
    raw: NDArray[np.uint8], names: Names, byteorder: str, pointer_size: int
) -> Places | None:
    """Return the addresses of `names`; None if no table of them is ascending."""
    order = "<" if byteorder == "little" else ">"
    count, align = len(names.names), names.align
    base_at = names.count_at - align
    for at in (base_at - _up(4 * count, align), _up(names.end, align)):
        base = base_at if at < names.count_at else at + _up(4 * count, pointer_size)
        if at < 0 or base + pointer_size > len(raw):
            continue
        offset = raw[at : at + 4 * count].view(np.dtype(order + "u4")).astype(np.int64)
        place = Places(offset, base, pointer_size)
        # Without per-CPU variables at 0, the first symbol is at relative_base.
        if _ascending(place) and (not offset[0] or pointer_size == 8):
            return place
    at = _up(names.end, _ENTRY)
    if at + _ENTRY * count <= len(raw):
        entry = raw[at : at + _ENTRY * count].view(np.dtype(order + "i4")).astype(np.int64)
        own = at + _ENTRY * np.arange(count, dtype=np.int64)
        place = Places(entry + own, None, pointer_size, placed=True)
        if 0 <= place.offset[0] < len(raw) and _ascending(place):
            return place
        place = Places(entry & 0xFFFF_FFFF, None, pointer_size)
        if pointer_size == _ENTRY and _ascending(place):
            return place
    at = names.count_at - _up(pointer_size * count, align)
    if at < 0:
        return None
    column = raw[at : at + pointer_size * count].view(np.dtype(f"{order}u{pointer_size}"))
    place = Places(column.astype(np.uint64).view(np.int64), None, pointer_size)
    return place if _ascending(place) else None


def _ascending(place: Places) -> bool:
    """Return whether the addresses may be those of a kernel."""
    address = place.addresses(2 ** (8 * place.pointer_size - 1))
    return bool((address[1:] >= address[:-1]).all()) and int(address[0]) != int(address[-1])
