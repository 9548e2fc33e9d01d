"""Flat kernels: the bytes of memory, without an ELF header.

Where such a file is linked, and which parts of it are code, is found in its data. Its kallsyms
have the address of the first symbol, from which the file's own follows: kernels are linked at
round addresses, and the list of call sites leads to sites only if the address is right. A
movable kernel has a table of RELATIVE relocations: the word that holds the address of the first
symbol is one of the words that they fill.

The result has the same form as the headers of an ELF file, with the sections that symbols show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError
from ..facts import FileFacts
from . import structs as elf
from .embedded import Rows
from .headers import MAX_LOAD, Headers, Section, Segment
from .kallsyms_data import Content, find_names, find_places
from .relocations import RelocationTable, relocated
from .site_search import find_list

PAGE = 4096

_ROUND = (PAGE, 1 << 15, 1 << 16, 1 << 21)
"""Alignments of a kernel's link address, in bytes, the most likely first."""

_STEP, _STEPS = 1 << 15, 64
"""Distance of the other link addresses that are tried, and their number."""

_BSS = 16 << 20
"""Bytes of the kernel after the end of the file, if the data does not say."""

_SAMPLE, _VOTERS = 1 << 17, 1 << 12
"""Words looked at, and distinct ones of them that are used, to find the link address."""

_ELECTED = 4
"""Link addresses found in that way that are tried."""

_FEWEST = 256
"""Minimum number of relocations in a table that is accepted."""


def read(path: str, content: Content, facts: FileFacts) -> tuple[Headers, Rows]:
    """Return headers as an ELF file would have them, and the symbols of kallsyms.

    Raises `ImageError` if the kernel has no kallsyms from which its addresses follow.
    """
    names = find_names(content, facts.byteorder, facts.pointer_size)
    raw = np.frombuffer(content, np.uint8)
    places = find_places(raw, names, facts.byteorder, facts.pointer_size) if names else None
    if names is None or places is None:
        raise ImageError(path, f"neither an ELF file nor a kernel of {facts.name} with symbols")
    size = facts.pointer_size
    word = 0
    if places.base_at is not None:
        field = raw[places.base_at : places.base_at + size].tobytes()
        word = int.from_bytes(field, "little" if facts.byteorder == "little" else "big")
    table = _relative(facts, raw)
    if places.placed:
        tries = _pointed(_pointers(raw, facts, table), places.offset, len(raw))
    elif table:
        tries = _movable(raw, facts, table, places.base_at)
    else:
        tries = _fixed(int(places.addresses(word)[0]), word, len(raw))
    found: tuple[Headers, Rows] | None = None
    for base, first in tries:
        rows = names.names, names.kind, places.addresses(first)
        headers = _headers(facts, raw, base, rows, table)
        segment = headers.segments[0]
        loaded = raw
        if table:
            loaded = relocated(path, facts, raw, [segment], [_table(facts, raw, headers)])
        sites = _sites(facts, loaded, headers)
        found = found or (headers, rows)
        if sites is not None:
            found = _with_exit_code(facts, headers, loaded, sites), rows
            break
    if found is None:
        raise ImageError(path, "its data does not say at which address the kernel is linked")
    _check_end(path, raw, *found)
    return found


def _check_end(path: str, raw: NDArray[np.uint8], headers: Headers, rows: Rows) -> None:
    """Raise `ImageError` if the kernel's data ends after the end of its file."""
    segment = headers.segments[0]
    end = segment.address + segment.filesz
    named = (at for name, at in zip(rows[0], rows[2], strict=True) if name == "_edata")
    last = max(next(named, end), segment.address + _end_for_efi(raw))
    if end < last:
        raise ImageError(
            path, f"truncated: its data ends at address {last:#x}, but the file ends at {end:#x}"
        )


def _end_for_efi(raw: NDArray[np.uint8]) -> int:
    """Return where the sections end that a kernel has for EFI, a PE file; 0 if it has none.

    Source: Microsoft's PE format: the COFF file header, and the section table.
    """
    data = raw[: 1 << 16].tobytes()
    header = int.from_bytes(data[0x3C:0x40], "little")
    if data[:2] != b"MZ" or data[header : header + 4] != b"PE\0\0":
        return 0
    count = int.from_bytes(data[header + 6 : header + 8], "little")
    table = header + 24 + int.from_bytes(data[header + 20 : header + 22], "little")
    rows = (data[at : at + 40] for at in range(table, min(table + 40 * count, len(data)), 40))
    ends = (
        int.from_bytes(row[16:20], "little") + int.from_bytes(row[20:24], "little") for row in rows
    )
    return max(ends, default=0)


def _fixed(first: int, word: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield link address and relative_base for a kernel whose relative_base is `word`.

    `first` is the address of its first symbol.
    """
    # Some kernels begin with code that has no symbols, up to the next megabyte.
    rounded = [first // unit * unit for unit in _ROUND]
    below = [first - step * _STEP for step in range(1, _STEPS)]
    for base in dict.fromkeys([*rounded, *below]):
        if base > 0 and first - base < size:
            yield base, word


def _pointers(
    raw: NDArray[np.uint8], facts: FileFacts, table: tuple[int, int] | None
) -> NDArray[np.uint64]:
    """Return some of the distinct words of the kernel that may be pointers."""
    layouts = elf.layouts(facts.pointer_size, facts.byteorder)
    if table is not None:
        rows = raw[table[0] : table[0] + table[1]].view(layouts.rela)
        words = rows["addend"].astype(np.int64).view(np.uint64)
    else:
        words = raw[: len(raw) // facts.pointer_size * facts.pointer_size].view(layouts.word)
    words = words[words >= len(raw)]
    found = np.unique(words[:: len(words) // _SAMPLE + 1]).astype(np.uint64)
    return found[:: len(found) // _VOTERS + 1]


def _pointed(
    pointers: NDArray[np.uint64], offsets: NDArray[np.int64], size: int
) -> Iterator[tuple[int, int]]:
    """Yield the link addresses, each one twice, at which most of `pointers` lead to a symbol.

    `offsets` has the place of each symbol in the file, which has `size` bytes. Each pointer votes
    for the link addresses that put a symbol where it leads. Instructions resemble pointers, but
    few of those that would lead into the kernel then lead to a symbol.
    """
    page = np.uint64(PAGE)
    starts = np.unique(offsets).view(np.uint64)
    starts = starts[np.argsort(starts % page, kind="stable")]
    first, last = (
        np.searchsorted(starts % page, pointers % page, side) for side in ("left", "right")
    )
    counts = last - first
    shift = np.repeat(first - (np.cumsum(counts) - counts), counts)
    found = np.repeat(pointers, counts) - starts[np.arange(len(shift)) + shift]
    base, votes = np.unique(found[found < np.uint64(2**64 - size)], return_counts=True)
    low, high = (np.searchsorted(pointers, base + np.uint64(end)) for end in (0, size))
    score = votes * votes / np.maximum(high - low, 1)
    for row in np.argsort(-score, kind="stable")[:_ELECTED].tolist():
        yield int(base[row]), int(base[row])


def _movable(
    raw: NDArray[np.uint8], facts: FileFacts, table: tuple[int, int], base_at: int | None
) -> Iterator[tuple[int, int]]:
    """Yield link address and relative_base for a kernel with a table of relocations."""
    rows = raw[table[0] : table[0] + table[1]].view(
        elf.layouts(facts.pointer_size, facts.byteorder).rela
    )
    if base_at is None:
        return
    place, value = rows["offset"].astype(np.uint64), rows["addend"].astype(np.int64).view(np.uint64)
    base = place - np.uint64(base_at)
    good = (base % np.uint64(PAGE) == 0) & (value - base < np.uint64(len(raw)))
    good &= (place.min() >= base) & (place.max() - base < np.uint64(len(raw)))
    found = np.unique(np.stack((base[good], value[good]), 1), axis=0)
    yield from ((int(low), int(first)) for low, first in found[:8].tolist())
    # If the word itself is not in the table, use the lowest address in any word.
    low = int(value.min())
    if low % PAGE == 0 and low <= int(place.min()) and int(place.max()) < low + len(raw):
        yield low, low


def _relative(facts: FileFacts, raw: NDArray[np.uint8]) -> tuple[int, int] | None:
    """Return offset and size of the longest table of RELATIVE relocations, or None."""
    if facts.relative is None:
        return None
    layouts = elf.layouts(facts.pointer_size, facts.byteorder)
    step = layouts.rela.itemsize // facts.pointer_size
    words = raw[: len(raw) // facts.pointer_size * facts.pointer_size].view(layouts.word)
    rows = np.flatnonzero(words == facts.relative)
    if not len(rows):
        return None
    # Entries that follow each other are one step apart.
    ends = np.append(np.flatnonzero(np.diff(rows) != step), len(rows) - 1)
    sizes = np.diff(ends, prepend=-1)
    best = int(np.argmax(sizes))
    if sizes[best] < _FEWEST:
        return None
    first = (int(rows[ends[best] - sizes[best] + 1]) - 1) * facts.pointer_size
    return first, int(sizes[best]) * layouts.rela.itemsize


def _headers(
    facts: FileFacts,
    raw: NDArray[np.uint8],
    base: int,
    rows: Rows,
    table: tuple[int, int] | None,
) -> Headers:
    """Return the headers of a kernel linked at `base`."""
    end = base + len(raw)
    known = dict(zip(reversed(rows[0]), reversed(rows[2].tolist()), strict=True))
    text_end = known.get("_etext", end)
    code = [(base, text_end if base < text_end <= end else end)]
    init, init_end = known.get("_sinittext", 0), known.get("_einittext", 0)
    if base <= init < init_end <= end:
        code.append((init, init_end))
    sections = _sections(base, end, sorted(code))
    if table is not None:
        rela = elf.layouts(facts.pointer_size, facts.byteorder).rela.itemsize
        flags, start = elf.SHF_ALLOC, base + table[0]
        sections.append(
            Section(0, ".rela.dyn", elf.SHT_RELA, flags, start, table[0], table[1], 0, 0, 8, rela)
        )
    memory = min(_memory(facts, raw, known, base), MAX_LOAD)
    if memory > len(raw):
        flags = elf.SHF_ALLOC | elf.SHF_WRITE
        sections.append(
            Section(0, ".bss", elf.SHT_NOBITS, flags, end, len(raw), memory - len(raw), 0, 0, 8, 0)
        )
    null = Section(0, "", elf.SHT_NULL, 0, 0, 0, 0, 0, 0, 0, 0)
    every = (null, *(replace(each, index=row) for row, each in enumerate(sections, 1)))
    return Headers(
        relocatable=False,
        movable=table is not None,
        entry=base,
        sections=every,
        segments=_segments(base, len(raw), memory, every),
    )


def _memory(facts: FileFacts, raw: NDArray[np.uint8], known: dict[str, int], base: int) -> int:
    """Return the size of the kernel in memory, in bytes."""
    flat = facts.flat
    if flat is not None and flat.size_at is not None and _has(raw, flat.offset, flat.magic):
        size = int.from_bytes(raw[flat.size_at : flat.size_at + 8].tobytes(), "little")
        if len(raw) <= size <= MAX_LOAD:
            return size
    last = known.get("_end", 0) - base
    return last if len(raw) <= last <= MAX_LOAD else len(raw) + _BSS


def _has(raw: NDArray[np.uint8], offset: int, magic: bytes) -> bool:
    return raw[offset : offset + len(magic)].tobytes() == magic


def _sections(base: int, end: int, code: list[tuple[int, int]]) -> list[Section]:
    """Return the sections of [base, end): code, and data between and after it."""
    found, at = [], base

    def add(name: str, start: int, stop: int, flags: int) -> None:
        if start < stop:
            flags |= elf.SHF_ALLOC
            found.append(Section(0, name, 1, flags, start, start - base, stop - start, 0, 0, 8, 0))

    for number, (start, stop) in enumerate(code):
        add(".data" if number > 1 else ".rodata", at, start, elf.SHF_WRITE)
        add(".init.text" if number else ".text", max(start, at), stop, elf.SHF_EXECINSTR)
        at = max(at, stop)
    add(".data", at, end, elf.SHF_WRITE)
    return found


def _segments(
    base: int, filesz: int, memory: int, sections: tuple[Section, ...]
) -> tuple[Segment, ...]:
    """Return one segment: a flat kernel is one piece, and its code is not page-aligned."""
    return (Segment(base, 0, filesz, memory, elf.PF_X | elf.PF_W | 4),)


def _table(facts: FileFacts, raw: NDArray[np.uint8], headers: Headers) -> RelocationTable:
    """Return the relocations that the kernel applies to itself."""
    section = next(each for each in headers.sections if each.type == elf.SHT_RELA)
    rows = raw[section.offset : section.offset + section.size].view(
        elf.layouts(facts.pointer_size, facts.byteorder).rela
    )
    kind = (rows["info"].astype(np.uint64) & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    offset = rows["offset"].astype(np.uint64)
    addend = rows["addend"].astype(np.int64)
    return RelocationTable(section, headers.sections[0], offset, kind, kind * 0, addend)


def _sites(facts: FileFacts, loaded: NDArray[np.uint8], headers: Headers) -> tuple[int, int] | None:
    """Return address and size of the list of sites; code that has no symbols counts too."""
    base = headers.segments[0].address
    return find_list(facts, [(base, loaded)], [(base, loaded)])


def _with_exit_code(
    facts: FileFacts, headers: Headers, loaded: NDArray[np.uint8], sites: tuple[int, int]
) -> Headers:
    """Return the headers with `.exit.text`, which has sites, but no symbols around it."""
    base = headers.segments[0].address
    init = next((s for s in headers.sections if s.name == ".init.text"), None)
    if init is None:
        return headers
    words = loaded[sites[0] - base : sites[0] - base + sites[1]].view(
        elf.layouts(facts.pointer_size, facts.byteorder).word
    )
    last = int(words.max())
    data = next((s for s in headers.sections if s.name == ".data" and s.address == init.end), None)
    if data is None or not init.end <= last < data.end - PAGE:
        return headers
    end = (last // PAGE + 1) * PAGE
    size = end - init.end
    sections = []
    for section in headers.sections:
        if section is data:
            flags = elf.SHF_ALLOC | elf.SHF_EXECINSTR
            name = ".exit.text"
            sections.append(replace(data, name=name, flags=flags, size=size))
            section = replace(data, address=end, offset=data.offset + size, size=data.size - size)
        sections.append(section)
    numbered = tuple(replace(each, index=row) for row, each in enumerate(sections))
    return replace(headers, sections=numbered)
