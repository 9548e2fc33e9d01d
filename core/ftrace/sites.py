"""Where the call sites of an image are.

The compiler leaves a list of every call site, `__mcount_loc`. Linked into a
kernel it lies between `__start_mcount_loc` and `__stop_mcount_loc`; in a module
it is a section with relocations; where no list was kept, the relocations
against the mcount symbol say the same. Whatever the source, sites outside code
are refused, duplicates and the linker's zero padding are dropped, and the
port's `call_adjust` turns each entry into rec.ip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..arch import Addresses, Port, Sites
from ..elf.headers import Section
from ..elf.image import Image

Reader = Callable[[int, int], bytes]
"""Reads `size` bytes of guest memory at an address."""


@dataclass(frozen=True, slots=True)
class SiteTable:
    """The compiler's list of call sites in a loaded image."""

    section: Section
    """The one it is in; a kernel's list has others around it."""
    address: int
    """Of its first entry, where it is loaded."""
    size: int
    """In bytes."""


def call_sites(
    port: Port, image: Image, read: Reader, bases: Mapping[int, int] | None = None
) -> Addresses:
    """rec.ip of every call site of a loaded image, ascending.

    `bases` gives the address of each section (by index) of a relocatable file;
    the sections of an executable lie where the file says. The list is taken
    from the guest, since a module's is only right after relocation. Raises
    `ImageError` for a site that is not in code.
    """
    if bases is None:
        bases = {section.index: section.address for section in image.sections if section.loaded}
    table = site_table(port, image, bases)
    if table is None:
        entries = _called(port, image, bases)
    else:
        entries = image.words(read(table.address, table.size))
    ips = np.unique(port.call_adjust(entries[entries != 0]))
    _check(port, image, ips, bases)
    return ips


def code_ranges(image: Image, bases: Mapping[int, int]) -> list[tuple[int, int]]:
    """Start and end of each section of code of a loaded image; `bases` as in `call_sites`."""
    return [
        (bases[section.index], bases[section.index] + section.size)
        for section in image.sections
        if section.loaded and section.executable and section.index in bases
    ]


def calls_of_mcount(port: Port, image: Image, read: Reader) -> Addresses:
    """Every place in an executable's code that holds a call of mcount, ascending.

    For images without any list of their sites: code is looked at, at each place
    where an instruction may begin, and nothing has run yet.
    """
    names = port.facts.sites.mcount_symbols
    targets = [image.symbols.address_of(name) for name in names]
    bases = {section.index: section.address for section in image.sections if section.loaded}
    found = [
        calls_in(port, start, read(start, end - start), target)
        for start, end in code_ranges(image, bases)
        for target in targets
        if target is not None
    ]
    return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))


def calls_in(port: Port, start: int, text: bytes, mcount: int) -> Addresses:
    """Every place in `text`, the code from `start` on, that holds a call of `mcount`, ascending."""
    width, step = port.facts.sites.size, port.facts.insn_align
    if len(text) < width:
        return np.empty(0, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, np.uint8), width)[::step]
    ips = np.uint64(start) + np.arange(len(windows), dtype=np.uint64) * np.uint64(step)
    edit = port.modify_call(Sites(ips, compiled=windows), mcount, mcount)
    calls: Addresses = ips[edit.reachable & (edit.expected == windows).all(axis=1)]
    return calls


def site_table(port: Port, image: Image, bases: Mapping[int, int]) -> SiteTable | None:
    """Where the compiler's list is; None where the image has none. Raises `ImageError`."""
    for name in port.facts.sites.sections:
        section = image.section(name)
        if section is not None and section.loaded and section.index in bases:
            return SiteTable(section, bases[section.index], section.size)
    start = image.symbols.address_of("__start_mcount_loc")
    stop = image.symbols.address_of("__stop_mcount_loc")
    if image.relocatable or start is None or stop is None:
        return None
    section = image.section_of(start, stop)
    if section is None:
        raise image.error(
            f"__start_mcount_loc..__stop_mcount_loc is {start:#x}..{stop:#x}, "
            "which does not lie in one section"
        )
    return SiteTable(section, start, stop - start)


def _called(port: Port, image: Image, bases: Mapping[int, int]) -> Addresses:
    """Where the relocations of calls of mcount are; the linker keeps them with --emit-relocs."""
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
    # A site may be shorter than the longest; what lies behind it is seen when it changes.
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
