"""Loading a relocatable file into guest memory: layout, symbols, relocations.

The linker works on copies of the file's sections. Only `Linked.write` changes guest memory, after
every step that can fail, so a refused module leaves no trace.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, ModuleStub, Port, Relocations
from ..distinct import distinct
from ..errors import ModuleError, UnknownSymbol, UsageError
from . import structs as elf
from .headers import Section
from .image import Image
from .relocations import RelocationTable
from .stubs import StubTable
from .symbols import SymbolTable

PAGE_SIZE = 4096

TEXT, RODATA, DATA = "text", "rodata", "data"

NOT_LOADED = frozenset({".modinfo"})
"""Sections that only the loader reads."""

Resolver = Callable[[str], int | None]
"""Returns the address of an undefined symbol, or None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Part:
    """The pages of one kind of section: `text`, `rodata` or `data`."""

    name: str
    offset: int
    """Bytes from the base, a multiple of the page size."""
    size: int
    """In bytes, a multiple of the page size."""


class Map(Protocol):
    """Adds zero-filled memory to the guest (`Memory.map`)."""

    def __call__(
        self, address: int, size: int, name: str, *, executable: bool, writable: bool
    ) -> object: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of the sections, relative to a base that is a multiple of `align`."""

    offsets: Mapping[int, int]
    """Offset of each section in bytes, by section index."""
    size: int
    """In bytes, a multiple of the page size."""
    align: int
    parts: tuple[Part, ...]
    """All pages by their permissions, in ascending order; none is empty."""
    stubs: int = 0
    """Offset of the room for stubs, after the code."""
    stubs_size: int = 0
    """Size of that room in bytes."""

    def bases(self, base: int) -> dict[int, int]:
        """Return the address of each section, by index, if the file is loaded at `base`."""
        return {index: base + offset for index, offset in self.offsets.items()}


@dataclass(frozen=True, slots=True)
class Linked:
    """A relocatable file linked for guest memory at `base`."""

    base: int
    size: int
    parts: tuple[Part, ...]
    """As in `Layout`."""
    bases: Mapping[int, int]
    """Address of each loaded section, by index."""
    symbols: SymbolTable
    """Its symbols, with their addresses in guest memory."""
    content: Mapping[int, NDArray[np.uint8]]
    """Relocated bytes of each loaded section, by index."""
    toc: int = 0
    """Its TOC pointer; 0 if the ABI has none."""
    stubs: tuple[ModuleStub, ...] = ()
    """Its stubs, by address."""
    replaced: int = 0
    """Number of calls that `replace` of `link` has redirected."""

    def map(self, add: Map, name: str) -> None:
        """Add the memory of every part, named after `name` and the part.

        Only text is executable, and only data is writable (CONFIG_STRICT_MODULE_RWX).
        """
        for part in self.parts:
            add(
                self.base + part.offset,
                part.size,
                part_name(name, part.name),
                executable=part.name == TEXT,
                writable=part.name == DATA,
            )

    def write(self, write: Callable[[int, bytes], None]) -> None:
        """Call `write` with the address and bytes of every section and stub."""
        for index, raw in self.content.items():
            write(self.bases[index], raw.tobytes())
        for each in self.stubs:
            write(each.address, each.code)


def layout(image: Image, stubs_size: int = 0, stubs_align: int = 1, data: int = 0) -> Layout:
    """Place the loaded sections: code, then constants, then data, each on its own pages.

    `stubs_size` bytes right after the code stay free for stubs, within reach of a branch.
    `data` is the least offset of the data, a multiple of the page size.
    """
    groups: dict[str, list[Section]] = {TEXT: [], RODATA: [], DATA: []}
    for section in image.sections:
        # An empty section has an address too: relocations may refer to it.
        if section.flags & elf.SHF_ALLOC and section.name not in NOT_LOADED:
            writable = bool(section.flags & elf.SHF_WRITE)
            groups[TEXT if section.executable else DATA if writable else RODATA].append(section)
    offsets: dict[int, int] = {}
    end = 0
    align = PAGE_SIZE
    stubs = 0
    parts = []
    for name, group in groups.items():
        start = end = max(_up(end, PAGE_SIZE), data if name == DATA else 0)
        for section in group:
            align = max(align, section.align)
            end = _up(end, max(section.align, 1))
            offsets[section.index] = end
            end += section.size
        if name == TEXT:
            stubs = _up(end, stubs_align)
            end = stubs + stubs_size if stubs_size else end
        if end > start:
            parts.append(Part(name, start, _up(end, PAGE_SIZE) - start))
    return Layout(offsets, _up(end, PAGE_SIZE), align, tuple(parts), stubs, stubs_size)


def part_name(name: str, part: str) -> str:
    """Return the name of the memory of a part (`TEXT`, `RODATA` or `DATA`) of the file `name`."""
    return f"{name} {part}"


def stub_callees(port: Port, image: Image) -> int:
    """Return the number of undefined symbols that `image` calls: the maximum number of stubs."""
    calls = np.array(sorted(port.facts.sites.call_relocations), np.uint32)
    found = [each.symbol[np.isin(each.kind, calls)] for each in image.relocations()]
    called = distinct(np.concatenate([np.empty(0, np.uint32), *found]))
    return int(np.count_nonzero(image.symbols.shndx[called] == elf.SHN_UNDEF))


def toc_pointer(port: Port, image: Image, where: Layout, base: int) -> int:
    """Return the TOC pointer of `image` if it is loaded at `base`; 0 if the ABI has none."""
    toc = port.facts.abi.toc
    if toc is None:
        return 0
    section = image.section(toc.section)
    offset = 0 if section is None else where.offsets.get(section.index, 0)
    return base + offset + toc.bias


def link(
    port: Port,
    image: Image,
    name: str,
    where: Layout,
    base: int,
    resolve: Resolver,
    *,
    toc: int = 0,
    stubs: StubTable | None = None,
    replaced: tuple[str, str] | None = None,
    shifts: Mapping[str, int] | None = None,
) -> Linked:
    """Resolve the symbols of `image` and relocate it for `base`.

    `toc` is its TOC pointer; far callees get a stub of `stubs`. Symbols in a section of `shifts`
    have the value of their address minus that many bytes. With `replaced`, two symbols,
    calls of the first become calls of the second. Raises `ModuleError`, or one derived from it,
    about module `name`, `UsageError` if there is nothing to replace, and `ImageError` if the file
    contradicts itself.
    """
    bases = where.bases(base)
    symbols = _located(image, name, bases, resolve, shifts or {})
    tables = [each for each in image.relocations() if each.target.index in bases]
    count = 0
    if replaced is not None:
        tables, count = _replaced(port, name, tables, bases, symbols, *replaced)
    external = image.symbols.shndx == elf.SHN_UNDEF
    content = {}
    for index in bases:
        section = image.sections[index]
        raw = np.zeros(section.size, np.uint8)
        stored = image.data(section)
        raw[: len(stored)] = stored
        content[index] = raw
    for table in tables:
        raw = content[table.target.index]
        found = relocations(
            table, bases[table.target.index], symbols.address, external[table.symbol], toc
        )
        if stubs is not None:
            found = stubs.redirect(found, [symbols.names[row] for row in table.symbol.tolist()])
        port.relocate(name, raw, found)
    return Linked(base, where.size, where.parts, bases, symbols, content, toc, replaced=count)


def _replaced(
    port: Port,
    name: str,
    tables: Sequence[RelocationTable],
    bases: Mapping[int, int],
    symbols: SymbolTable,
    old: str,
    new: str,
) -> tuple[list[RelocationTable], int]:
    """Return `tables` in which code refers to `new` instead of `old`, and how many calls do.

    Only `new` itself still calls `old`. Raises `UsageError` without either symbol or such a call.
    """
    row = symbols.row_of(new)
    if row is None or symbols.shndx[row] == elf.SHN_UNDEF:
        raise UsageError(f"{name} does not define '{new}': give a function of the module")
    start = int(symbols.address[row])
    end = start + int(symbols.size[row])
    olds = np.array([at for at, each in enumerate(symbols.names) if each == old], np.uint32)
    calls = np.array(sorted(port.facts.sites.call_relocations), np.uint32)
    made, count = [], 0
    for table in tables:
        place = table.offset + np.uint64(bases[table.target.index])
        inside = (place >= np.uint64(start)) & (place < np.uint64(end))
        found = np.isin(table.symbol, olds) & ~inside & table.target.executable
        symbol = table.symbol.copy()
        symbol[found] = row
        made.append(replace(table, symbol=symbol))
        count += int(np.count_nonzero(found & np.isin(table.kind, calls)))
    if not count:
        raise UsageError(f"{name} has no call of '{old}' to replace")
    return made, count


def relocations(
    table: RelocationTable,
    base: int,
    values: Addresses,
    external: NDArray[np.bool_],
    toc: int = 0,
) -> Relocations:
    """Return the relocations of `table` for its section at `base`.

    `values` has the address of every symbol; `external`, shape (n,), says which relocations
    are against symbols that the file does not define.
    """
    count = len(table.kind)
    return Relocations(
        kind=table.kind,
        offset=table.offset,
        place=table.offset + np.uint64(base),
        symbol=values[table.symbol],
        addend=table.addend if table.addend is not None else np.zeros(count, np.int64),
        external=external,
        stub=np.zeros(count, np.bool_),
        toc=toc,
        explicit=table.addend is not None,
    )


def _located(
    image: Image,
    name: str,
    bases: Mapping[int, int],
    resolve: Resolver,
    shifts: Mapping[str, int],
) -> SymbolTable:
    """Return the symbols of `image` with their addresses, undefined ones resolved."""
    table = image.symbols
    common = np.flatnonzero(table.shndx == elf.SHN_COMMON)
    if len(common):
        symbol = table.names[int(common[0])]
        raise ModuleError(
            name, errno.ENOEXEC, f"{name}: symbol {symbol} is common; compile with -fno-common"
        )
    starts = np.zeros(max(len(image.sections), 1), np.uint64)
    limits = np.zeros_like(starts)
    for index, base in bases.items():
        start = (base - shifts.get(image.sections[index].name, 0)) % (1 << 64)
        starts[index] = start
        limits[index] = start + image.sections[index].size
    inside = np.where(table.shndx < elf.SHN_LORESERVE, table.shndx, 0).astype(np.intp)
    address = table.address + starts[inside]
    used = [each.symbol for each in image.relocations() if each.target.index in bases]
    # Assemblers leave undefined symbols that no relocation uses, such as _GLOBAL_OFFSET_TABLE_.
    needed = distinct(np.concatenate([np.empty(0, np.uint32), *used]))
    for row in needed[table.shndx[needed] == elf.SHN_UNDEF].tolist():
        symbol = table.names[row]
        value = resolve(symbol) if symbol else 0
        if value is None and table.binding[row] != elf.STB_WEAK:
            raise UnknownSymbol(name, symbol)
        address[row] = value or 0
    return replace(table, address=address, limit=limits[inside])


def _up(value: int, align: int) -> int:
    """Return `value` rounded up to a multiple of `align`."""
    return -(-value // align) * align
