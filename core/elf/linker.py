"""Putting a relocatable file into guest memory: places, symbols, relocations.

The work is done on copies of the file's sections. Guest memory is touched only
by `Linked.write`, when nothing can fail any more, so a module that is refused
leaves nothing behind.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Port, Relocations
from ..errors import ModuleError, UnknownSymbol
from . import structs as elf
from .headers import Section
from .image import Image, RelocationTable
from .symbols import SymbolTable

PAGE_SIZE = 4096

NOT_LOADED = frozenset({".modinfo"})
"""Sections that only the loader reads."""

Resolver = Callable[[str], int | None]
"""Finds the address of an undefined symbol; None where nobody has it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each section goes, relative to a base that is a multiple of `align`."""

    offsets: Mapping[int, int]
    """Section index to offset in bytes."""
    size: int
    """In bytes, a multiple of the page size."""
    align: int


@dataclass(frozen=True, slots=True)
class Linked:
    """A relocatable file ready for guest memory at `base`."""

    base: int
    size: int
    bases: Mapping[int, int]
    """Address of each loaded section, by index."""
    symbols: SymbolTable
    """With the addresses the symbols have there."""
    content: Mapping[int, NDArray[np.uint8]]
    """Bytes of each loaded section, relocated."""

    def write(self, write: Callable[[int, bytes], None]) -> None:
        """Hand every section's address and bytes to `write`."""
        for index, raw in self.content.items():
            write(self.bases[index], raw.tobytes())


def layout(image: Image) -> Layout:
    """Place the loaded sections: code, then constants, then data, each on pages of its own."""
    groups: tuple[list[Section], list[Section], list[Section]] = ([], [], [])
    for section in image.sections:
        if section.loaded and section.name not in NOT_LOADED:
            writable = bool(section.flags & elf.SHF_WRITE)
            groups[0 if section.executable else 2 if writable else 1].append(section)
    offsets: dict[int, int] = {}
    end = 0
    align = PAGE_SIZE
    for group in groups:
        end = _up(end, PAGE_SIZE)
        for section in group:
            align = max(align, section.align)
            end = _up(end, max(section.align, 1))
            offsets[section.index] = end
            end += section.size
    return Layout(offsets, _up(end, PAGE_SIZE), align)


def link(
    port: Port, image: Image, name: str, where: Layout, base: int, resolve: Resolver
) -> Linked:
    """Resolve the symbols of `image` and relocate it for `base`.

    Raises `ModuleError` and its kin, in the name of module `name`, and
    `ImageError` where the file contradicts itself.
    """
    bases = {index: base + offset for index, offset in where.offsets.items()}
    symbols = _located(image, name, bases, resolve)
    content = {}
    for index in bases:
        section = image.sections[index]
        raw = np.zeros(section.size, np.uint8)
        stored = image.data(section)
        raw[: len(stored)] = stored
        content[index] = raw
    for table in image.relocations():
        if table.target.index in content:
            raw = content[table.target.index]
            relocate(port, name, table, raw, bases[table.target.index], symbols.address)
    return Linked(base, where.size, bases, symbols, content)


def relocate(
    port: Port,
    name: str,
    table: RelocationTable,
    raw: NDArray[np.uint8],
    base: int,
    values: Addresses,
) -> None:
    """Apply one relocation table to `raw`, its section's bytes for address `base`."""
    explicit = table.addend is not None
    port.relocate(
        name,
        raw,
        Relocations(
            kind=table.kind,
            offset=table.offset,
            place=table.offset + np.uint64(base),
            symbol=values[table.symbol],
            addend=table.addend
            if table.addend is not None
            else np.zeros(len(table.kind), np.int64),
            explicit=explicit,
        ),
    )


def _located(image: Image, name: str, bases: Mapping[int, int], resolve: Resolver) -> SymbolTable:
    """The symbols of `image` with their addresses, undefined ones resolved."""
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
        starts[index] = base
        limits[index] = base + image.sections[index].size
    inside = np.where(table.shndx < elf.SHN_LORESERVE, table.shndx, 0).astype(np.intp)
    address = table.address + starts[inside]
    used = [each.symbol for each in image.relocations() if each.target.index in bases]
    # Assemblers leave symbols behind that nothing refers to, such as that of a table of offsets.
    needed = np.unique(np.concatenate([np.empty(0, np.uint32), *used]))
    for row in needed[table.shndx[needed] == elf.SHN_UNDEF].tolist():
        symbol = table.names[row]
        value = resolve(symbol) if symbol else 0
        if value is None and table.binding[row] != elf.STB_WEAK:
            raise UnknownSymbol(name, symbol)
        address[row] = value or 0
    return replace(table, address=address, limit=limits[inside])


def _up(value: int, align: int) -> int:
    """`value` rounded up to a multiple of `align`."""
    return -(-value // align) * align
