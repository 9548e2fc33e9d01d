"""The addresses of an image's call sites.

The compiler writes a list of all call sites, `__mcount_loc`. In a linked kernel it lies
between `__start_mcount_loc` and `__stop_mcount_loc`; in a module it is a section with
relocations. Without a list, the relocations against the mcount symbol have the same
information; an executable without either is searched for calls of mcount. In all cases,
sites outside code are refused, duplicates and the linker's zero padding are dropped, and
`rec_ips` turns each entry into rec.ip.

The list may name dead code. If a function overrides a weak one in another object, the
linker drops the symbol of the weak function but keeps its code and its entry
(`dead_sites`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Port, Sites
from ..distinct import distinct
from ..elf.headers import Section
from ..elf.image import Image
from ..errors import MemoryFault
from ..facts import FileFacts


class Listed(Protocol):
    """The facts needed to read a list of sites: from a port, or for an architecture without one."""

    @property
    def facts(self) -> FileFacts:
        """How files and sites are recognised."""
        ...

    @property
    def call_adjust(self) -> Callable[[Addresses], Addresses]:
        """Turns entries of the list into rec.ip."""
        ...


Reader = Callable[[int, int], bytes]
"""Reads `size` bytes of guest memory at an address."""

SYMBOLS = "symbols __start_mcount_loc and __stop_mcount_loc"
SECTION = "section {}"
PATTERN = "pattern: the longest run of pointers to call sites"
RELATIVE = ", filled by RELATIVE relocations"
RELOCATIONS = "relocations against mcount"
CALLS = "calls of mcount in its code"
"""Ways to find the sites of a file."""

_BEFORE = 256
"""Maximum bytes of nops before a function."""

_CHUNK = 1 << 20
"""Bytes of code that are searched for calls at a time."""


@dataclass(frozen=True, slots=True)
class SiteTable:
    """The compiler's list of call sites in a loaded image."""

    section: Section
    """The section that contains it; in a kernel, that section has other data as well."""
    address: int
    """Address of its first entry, as loaded."""
    size: int
    """Size in bytes."""
    source: str
    """How the list was located: `SYMBOLS`, `SECTION` or `PATTERN`."""
    others: tuple[SiteTable, ...] = ()
    """The other sections of this name: some compilers make one for each section of code."""


def call_sites(
    port: Port, image: Image, read: Reader, bases: Mapping[int, int] | None = None
) -> Addresses:
    """Return rec.ip of every call site of a loaded image, ascending.

    `bases` has the address of each section (by index) of a relocatable file; without it
    the file's own addresses apply. The list is read from the guest, since a module's list
    is valid only after relocation. Raises `ImageError` for a site that is not in code.
    """
    if bases is None:
        bases = own_bases(image)
    table = site_table(port, image, bases)
    if table is None:
        entries = calls_by_relocation(port, image, bases)
    else:
        try:
            parts = [read(each.address, each.size) for each in (table, *table.others)]
            entries = np.concatenate([image.words(each) for each in parts])
        except MemoryFault as error:
            reason = f"its list of call sites is not loaded: {error}"
            raise image.error(reason, section=table.section) from error
    ips = distinct(rec_ips(port, image, bases, entries[entries != 0]))
    _check(port, image, ips, bases)
    return ips


def own_bases(image: Image) -> dict[int, int]:
    """Return the address of each loaded section of an executable, by index."""
    return {section.index: section.address for section in image.sections if section.loaded}


def rec_ips(port: Listed, image: Image, bases: Mapping[int, int], entries: Addresses) -> Addresses:
    """Return rec.ip of each of the n `entries` of a list of sites.

    With `-fpatchable-function-entry=N,M` the compiler puts M of the N nops before the
    function and lists the first of them. The nops that count then begin at the function's
    symbol, or after the landing pad there (`ftrace_call_adjust` in Linux 6.5).
    """
    return port.call_adjust(_inside(port, image, bases, entries))


def _inside(port: Listed, image: Image, bases: Mapping[int, int], entries: Addresses) -> Addresses:
    """Return `entries`, with those before a function moved to the nops inside it."""
    ips = entries.copy()
    known = _functions(image, bases)
    if not len(known.start):
        return ips
    nearest = np.searchsorted(known.start, ips, "right")
    last = np.maximum(nearest, 1) - 1
    # A symbol of kallsyms has no size: only its first byte is known to be inside.
    inside = (nearest > 0) & ((ips < known.end[last]) | (ips == known.start[last]))
    gap = known.start[np.minimum(nearest, len(known.start) - 1)] - ips
    inside |= (known.end[last] == known.start[last]) & (gap > np.uint64(_BEFORE))
    code = list(_code(image, bases))
    unit = port.facts.insn_align
    for row in np.flatnonzero(~inside & (nearest < len(known.start))).tolist():
        ip, function = int(ips[row]), int(known.start[nearest[row]])
        at, text = next((each for each in code if 0 <= ip - each[0] < len(each[1])), (ip, b""))
        before = text[ip - at : function - at]
        if len(before) == function - ip and before == before[:unit] * (len(before) // unit):
            pad = port.facts.sites.landing_pad
            ips[row] = function + (len(pad) if text.startswith(pad, function - at) else 0)
    return ips


def dead_sites(image: Image, bases: Mapping[int, int], ips: Addresses) -> NDArray[np.bool_]:
    """Return which of n sites are in no function: after the end of the one before them.

    Linux compares their offset in the function with FTRACE_MCOUNT_MAX_OFFSET, if the
    architecture has it (`test_for_valid_rec`). Here the size of the symbol decides, on all
    ports, if the file has a symbol table. A symbol without a size, such as a label of assembly,
    ends at the next one. Symbols of kallsyms have no sizes, so for them the offset decides.
    """
    known = _functions(image, bases)
    nearest = np.searchsorted(known.start, ips, "right") - 1
    if not len(known.start):
        return np.zeros(len(ips), np.bool_)
    start, end = (column[np.maximum(nearest, 0)] for column in (known.start, known.end))
    most = image.facts.sites.max_offset
    if image.symbols_from != ".symtab" and most is not None:
        end = start + np.uint64(most + 1)
    return (nearest < 0) | ((end > start) & (ips >= end))


def code_ranges(image: Image, bases: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return start and end of each code section of a loaded image; `bases` as in `call_sites`."""
    return [
        (bases[section.index], bases[section.index] + section.size)
        for section in image.sections
        if section.loaded and section.executable and section.index in bases
    ]


def calls_of_mcount(port: Port, image: Image, read: Reader) -> Addresses:
    """Return every address in an executable's code that holds a call of mcount, ascending.

    This is for images without a list of sites, before anything has run. Every address at
    which an instruction may begin is checked.
    """
    names = port.facts.sites.mcount_symbols
    targets = [image.symbols.address_of(name) for name in names]
    width = port.facts.sites.size
    found = [
        calls_in(port, at, read(at, min(_CHUNK + width - 1, end - at)), target)
        for start, end in code_ranges(image, own_bases(image))
        for at in range(start, end, _CHUNK)
        for target in targets
        if target is not None
    ]
    return distinct(np.concatenate([np.empty(0, np.uint64), *found]))


def calls_in(port: Port, start: int, text: bytes, mcount: int) -> Addresses:
    """Return every address in `text`, loaded at `start`, that holds a call of `mcount`."""
    width, step = port.facts.sites.size, port.facts.insn_align
    if len(text) < width:
        return np.empty(0, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, np.uint8), width)[::step]
    ips = np.uint64(start) + np.arange(len(windows), dtype=np.uint64) * np.uint64(step)
    edit = port.modify_call(Sites(ips, compiled=windows), mcount, mcount)
    calls: Addresses = ips[edit.reachable & (edit.expected == windows).all(axis=1)]
    return calls


def site_table(port: Listed, image: Image, bases: Mapping[int, int]) -> SiteTable | None:
    """Return the compiler's list; None if the image has none. Raises `ImageError`."""
    start = image.symbols.address_of("__start_mcount_loc")
    stop = image.symbols.address_of("__stop_mcount_loc")
    if image.relocatable or start is None or stop is None:
        for name in port.facts.sites.sections:
            tables = [
                SiteTable(each, bases[each.index], each.size, SECTION.format(name))
                for each in image.sections
                if each.name == name and each.loaded and each.index in bases
            ]
            if tables:
                return replace(tables[0], others=tuple(tables[1:]))
        return _searched(image)
    section = image.section_of(start, stop)
    if section is None:
        raise image.error(
            f"__start_mcount_loc..__stop_mcount_loc is {start:#x}..{stop:#x}, "
            "which does not lie in one section"
        )
    return SiteTable(section, start, stop - start, SYMBOLS + _filled(image, start, stop - start))


def _searched(image: Image) -> SiteTable | None:
    """Return the list of a kernel whose symbols do not say where it is, or None."""
    found = image.searched_list
    section = None if found is None else image.section_of(found[0], sum(found))
    if found is None or section is None:
        return None
    return SiteTable(section, *found, PATTERN + _filled(image, *found))


def _filled(image: Image, address: int, size: int) -> str:
    """Return `RELATIVE` if the list is zeros in the file."""
    stored = image.stored(address, size)
    return RELATIVE if image.movable and stored is not None and not stored.any() else ""


@dataclass(frozen=True, slots=True)
class _Functions:
    """Start and end of each function of a loaded image, ascending; equal if its size is unknown."""

    start: Addresses
    end: Addresses


def _functions(image: Image, bases: Mapping[int, int]) -> _Functions:
    """Return the functions of `image`; of those that begin together, the longest."""
    table = image.symbols
    rows = np.flatnonzero(table.functions)
    start = table.address[rows]
    if image.relocatable:
        places = [bases.get(section.index, 0) for section in image.sections]
        start = start + np.array(places, np.uint64)[table.shndx[rows]]
    order = np.lexsort((table.size[rows], start))
    start, size = start[order], table.size[rows][order]
    last = np.append(start[1:] != start[:-1], True)[: len(start)]
    return _Functions(start[last], start[last] + size[last])


def _code(image: Image, bases: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield address and compiled text of each code section of a loaded image."""
    for section in image.sections:
        if section.loaded and section.executable and section.index in bases:
            yield bases[section.index], image.data(section).tobytes()


def calls_by_relocation(port: Listed, image: Image, bases: Mapping[int, int]) -> Addresses:
    """Return the calls of mcount that the relocations of `image` show, as recordmcount does.

    A linked kernel has relocations only if it is linked with --emit-relocs.
    """
    facts = port.facts.sites
    mcount = [row for row, name in enumerate(image.symbols.names) if name in facts.mcount_symbols]
    found = [np.empty(0, np.uint64)]
    for table in image.relocations():
        if not table.target.executable or table.target.index not in bases:
            continue
        calls = np.isin(table.symbol, mcount) & np.isin(table.kind, list(facts.call_relocations))
        base = bases[table.target.index] if image.relocatable else 0
        shift = (base + facts.relocation_offset) % 2**64
        found.append(table.offset[calls] + np.uint64(shift))
    return np.concatenate(found)


def _check(port: Port, image: Image, ips: Addresses, bases: Mapping[int, int]) -> None:
    """Raise `ImageError` for the first site that is not in code, or is not aligned."""
    # A site may be shorter than the longest; the text after it is checked on patching.
    size = min(port.facts.sites.size, port.facts.max_insn_size)
    inside = np.zeros(len(ips), np.bool_)
    for section in image.sections:
        base = bases.get(section.index)
        if base is not None and section.loaded and section.executable and section.size >= size:
            last = np.uint64(base + section.size - size)
            inside |= (ips >= np.uint64(base)) & (ips <= last)
    inside &= ips % np.uint64(port.facts.insn_align) == 0
    if not inside.all():
        ip = int(ips[int(np.argmin(inside))])
        raise image.error(f"its list of call sites names {ip:#x}, which is not code")
