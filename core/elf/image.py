"""ELF images: kernels (executables) and modules (relocatable files).

An image is untrusted input. `Image.load` unpacks the file (`payload`) and checks the headers
(`headers`), and each table is checked against the file when it is first used. A file is read once
and may change afterwards. Only a kernel of hundreds of megabytes, nearly all debug information, is
mapped instead. A flat kernel has the headers and symbols that its data shows (`flat`).

`read` returns the bytes at an address as they are once loaded: if a kernel is movable, its own
relocations (`dynamic`) have been applied. `stored` returns the bytes of the file itself.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError
from ..facts import FileFacts
from ..payload.unpack import read
from . import embedded, headers
from . import structs as elf
from .embedded import Rows
from .flat import read as read_flat
from .headers import Section, Segment
from .kallsyms_data import Content, find_names, find_places
from .lines import SourceLines
from .relocations import RelocationTable, relocated
from .site_search import find_list
from .symbols import SymbolTable, cut_names, special

MAX_NAMES = 1 << 26
"""Limit for the names read from a symbol table, in bytes; the rest of its symbols have none."""


class Image:
    """One ELF file with valid headers; made by `load`."""

    def __init__(
        self,
        path: Path,
        facts: FileFacts,
        content: Content,
        flat: bool = False,
        steps: tuple[str, ...] = (),
    ) -> None:
        """`content` is an ELF file, or a `flat` kernel; `steps` says how it was unpacked."""
        self.path = path
        self.facts = facts
        self.steps = steps
        self._symbols_from = ".symtab"
        self._content = content
        self._raw = np.frombuffer(content, np.uint8)
        self._raw.flags.writeable = False
        self._layouts = elf.layouts(facts.pointer_size, facts.byteorder)
        self._rows: Rows | None = None
        if flat:
            found, self._rows = read_flat(str(path), content, facts)
        else:
            found = headers.read(str(path), self._raw, facts)
        self.relocatable = found.relocatable
        self.movable = found.movable
        """Whether it is linked like a shared library, to be loaded anywhere."""
        self.entry = found.entry
        self.sections = found.sections
        self.segments = found.segments
        self._by_name = {section.name: section for section in reversed(self.sections)}

    @classmethod
    def load(cls, path: Path | str, facts: FileFacts) -> Image:
        """Open the file at `path`, unpacked, for the architecture `facts` describes.

        Raises `WrongMachineError` for a valid ELF file of another machine, word size, byte
        order or ABI, and `ImageError` for anything else that cannot be used.
        """
        unpacked = read(path)
        return cls(Path(path), facts, unpacked.content, unpacked.flat, unpacked.steps)

    def error(
        self, reason: str, *, section: Section | None = None, offset: int | None = None
    ) -> ImageError:
        """Return an `ImageError` about this file."""
        name = None if section is None else section.name or f"[{section.index}]"
        return ImageError(str(self.path), reason, section=name, offset=offset)

    def section(self, name: str) -> Section | None:
        """Return the first section called `name`, or None."""
        return self._by_name.get(name)

    def data(self, section: Section) -> NDArray[np.uint8]:
        """Return the bytes of `section` (read-only); none for a NOBITS section."""
        if section.type == elf.SHT_NOBITS:
            return self._raw[:0]
        end = section.offset + section.size
        raw = self._loaded if section.loaded and end <= len(self._loaded) else self._raw
        return raw[section.offset : end]

    def segment_data(self, segment: Segment) -> NDArray[np.uint8]:
        """Return the bytes of `segment` (read-only)."""
        return self._loaded[segment.offset : segment.offset + segment.filesz]

    def read(self, address: int, size: int) -> NDArray[np.uint8] | None:
        """Return `size` bytes as an executable's file is loaded at `address`, or None."""
        return self._at(self._loaded, address, size)

    def stored(self, address: int, size: int) -> NDArray[np.uint8] | None:
        """Like `read`, but without the relocations that a movable image applies to itself."""
        return self._at(self._raw, address, size)

    def _at(self, raw: NDArray[np.uint8], address: int, size: int) -> NDArray[np.uint8] | None:
        for segment in self.segments:
            start = address - segment.address
            if start >= 0 and start + size <= segment.filesz:
                return raw[segment.offset + start : segment.offset + start + size]
        return None

    @cached_property
    def _loaded(self) -> NDArray[np.uint8]:
        """The part of the file that segments need, with its own relocations applied.

        Raises `ImageError` for a relocation that cannot be applied.
        """
        if not self.dynamic:
            return self._raw
        return relocated(str(self.path), self.facts, self._raw, self.segments, self.dynamic)

    @cached_property
    def dynamic(self) -> tuple[RelocationTable, ...]:
        """The relocations that a movable image applies to itself. Raises `ImageError`."""
        tables = (elf.SHT_REL, elf.SHT_RELA)
        found = [s for s in self.sections if s.type in tables and s.loaded and self.movable]
        return tuple(self.relocation_table(section) for section in found)

    def section_of(self, start: int, end: int) -> Section | None:
        """Return the loaded section of an executable that contains [start, end), or None."""
        for section in self.sections:
            if section.loaded and section.address <= start <= end <= section.end:
                return section
        return None

    def words(self, raw: bytes) -> NDArray[np.uint64]:
        """Return bytes as pointer-sized words, without a partial word at the end."""
        size = self.facts.pointer_size
        words = np.frombuffer(raw, self._layouts.word, len(raw) // size)
        return words.astype(np.uint64)

    @cached_property
    def symbols(self) -> SymbolTable:
        """The symbol table; empty in a stripped file. Raises `ImageError`."""
        table = next((s for s in self.sections if s.type == elf.SHT_SYMTAB), None)
        if table is None:
            return self._embedded
        rows = self._table(table, self._layouts.symbol)
        place = ~special(rows["shndx"])
        beyond = place & (rows["shndx"] >= len(self.sections)) | (rows["shndx"] == elf.SHN_XINDEX)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise self.error(
                f"symbol {row} is in section {int(rows['shndx'][row])}, which does not exist",
                section=table,
                offset=table.offset + row * rows.dtype.itemsize,
            )
        return self._columns(rows, self._symbol_names(table, rows["name"].astype(np.uint32)))

    @property
    def symbols_from(self) -> str:
        """Source of `symbols`: `.symtab`, `kallsyms`, or a file's name; empty without symbols."""
        _ = self.symbols
        return self._symbols_from

    @cached_property
    def _embedded(self) -> SymbolTable:
        """The symbols of a kernel without a symbol table. Raises `ImageError`."""
        if self.relocatable:
            return self._columns(np.empty(0, self._layouts.symbol), [])
        rows = self._kallsyms()
        self._symbols_from = "kallsyms" if rows is not None else ""
        beside = embedded.system_map(self.path)
        listed = rows is not None
        if beside is not None:
            every = beside[1] if rows is None else embedded.completed(rows, beside[1])
            if every is not None:
                rows, self._symbols_from = every, beside[0].name
            else:
                self._symbols_from = f"kallsyms, since {beside[0].name} is of another build"
        if rows is None:
            return self._columns(np.empty(0, self._layouts.symbol), [])
        table = embedded.table_of(*rows, self.sections, listed=listed)
        if not table.functions.any():
            raise self.error(f"the symbols of {self._symbols_from} are not in its code")
        return table

    def _kallsyms(self) -> Rows | None:
        """Return the symbols in the kernel's own data, or None."""
        if self._rows is not None:
            return self._rows
        order, size = self.facts.byteorder, self.facts.pointer_size
        names = find_names(self._content, order, size)
        places = None if names is None else find_places(self._raw, names, order, size)
        if names is None or places is None:
            return None
        base = 0
        if places.base_at is not None:
            at = places.base_at
            field = (self._loaded if at + size <= len(self._loaded) else self._raw)[at : at + size]
            base = int(self.words(field.tobytes())[0])
        elif places.placed:
            base = self._start_of(names.end)
        return names.names, names.kind, places.addresses(base)

    def _start_of(self, place: int) -> int:
        """Return the address that offset 0 has in the segment with the offset `place`."""
        for segment in self.segments:
            if segment.offset <= place < segment.offset + segment.filesz:
                return segment.address - segment.offset
        return 0

    @cached_property
    def searched_list(self) -> tuple[int, int] | None:
        """Address and size in bytes of the list of call sites, found by its contents.

        None without one. A kernel with a symbol table has symbols around its list, so it is not
        searched. Raises `ImageError`.
        """
        if self.relocatable or (len(self.symbols) and self.symbols_from == ".symtab"):
            return None
        pieces = [(segment.address, self.segment_data(segment)) for segment in self.segments]
        code = [(s.address, self.data(s)) for s in self.sections if s.loaded and s.executable]
        return find_list(self.facts, pieces, code)

    def relocations(self) -> list[RelocationTable]:
        """Return the relocations of loaded sections, in the file's order. Raises `ImageError`."""
        return [
            self.relocation_table(section)
            for section in self.sections
            if section.type in (elf.SHT_REL, elf.SHT_RELA)
            and section.size
            and not section.flags & elf.SHF_ALLOC  # these are for the dynamic linker
            and self._target(section).loaded
        ]

    def debug_relocations(self) -> list[RelocationTable]:
        """Return the relocations of `debug_sections`. Raises `ImageError`."""
        wanted = {section.index for section in self.debug_sections()}
        return [
            self.relocation_table(section)
            for section in self.sections
            if section.type in (elf.SHT_REL, elf.SHT_RELA)
            and section.size
            and section.info in wanted
        ]

    def relocation_table(self, section: Section) -> RelocationTable:
        """Read one relocation section, checked against the symbols. Raises `ImageError`."""
        explicit = section.type == elf.SHT_RELA
        rows = self._table(section, self._layouts.rela if explicit else self._layouts.rel)
        info = rows["info"].astype(np.uint64)
        bits = 32 if self.facts.pointer_size == 8 else 8
        symbol = (info >> np.uint64(bits)).astype(np.uint32)
        kind = (info & np.uint64((1 << bits) - 1)).astype(np.uint32)
        # The words that a movable kernel fills itself have no symbols, and kallsyms is among them.
        beyond = symbol >= (max(len(self.symbols), 1) if symbol.any() else 1)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise self.error(
                f"relocation {row} is against symbol {int(symbol[row])}, but the file has "
                f"{len(self.symbols)} symbols",
                section=section,
                offset=section.offset + row * rows.dtype.itemsize,
            )
        addend = rows["addend"].astype(np.int64) if explicit else None
        offset = rows["offset"].astype(np.uint64)
        return RelocationTable(section, self._target(section), offset, kind, symbol, addend)

    @cached_property
    def lines(self) -> SourceLines:
        """Source lines of an executable, as far as it has debug information."""
        return SourceLines(
            {section.name: self.data(section) for section in self.debug_sections()}, self.facts
        )

    def debug_sections(self) -> list[Section]:
        """Return the sections with uncompressed debug information."""
        return [
            section
            for section in self.sections
            if section.name.startswith(".debug_") and not section.flags & elf.SHF_COMPRESSED
        ]

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return the source file and line of the code at `address` of an executable, or None."""
        return self.lines.at(address)

    def _target(self, section: Section) -> Section:
        """Return the section that `section` relocates; section 0 means the whole image."""
        if self.movable and section.loaded:
            return self.sections[0]
        if not 0 < section.info < len(self.sections):
            raise self.error(
                f"it relocates section {section.info}, which does not exist", section=section
            )
        return self.sections[section.info]

    def _table(self, section: Section, layout: np.dtype[np.void]) -> NDArray[np.void]:
        """Return the rows of a section. Raises `ImageError` if their size is not `layout`'s."""
        if section.entsize != layout.itemsize or section.size % layout.itemsize:
            raise self.error(
                f"{section.size} bytes in entries of {section.entsize}; entries must have "
                f"{layout.itemsize}",
                section=section,
                offset=section.offset,
            )
        return self._raw[section.offset : section.offset + section.size].view(layout)

    def _symbol_names(self, table: Section, offsets: NDArray[np.uint32]) -> list[str]:
        """Return the names at `offsets` of the string table that `table` links to."""
        if not 0 < table.link < len(self.sections):
            raise self.error(
                f"its names are in section {table.link}, which does not exist", section=table
            )
        strings = headers.string_table(str(self.path), self._raw, self.sections[table.link])
        beyond = offsets >= len(strings)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise self.error(
                f"the name of symbol {row} is outside the {len(strings)} bytes of names",
                section=table,
                offset=table.offset + row * self._layouts.symbol.itemsize,
            )
        return cut_names(strings, offsets, MAX_NAMES)

    def _columns(self, rows: NDArray[np.void], names: list[str]) -> SymbolTable:
        """Return the symbol table as columns, with data from each symbol's section."""
        shndx = rows["shndx"].astype(np.uint16)
        inside = np.where(special(shndx), 0, shndx).astype(np.intp)
        limits = [s.end if s.loaded else 0 for s in self.sections] or [0]
        code = [s.loaded and s.executable for s in self.sections] or [False]
        info = rows["info"].astype(np.uint8)
        return SymbolTable(
            names=names,
            address=rows["value"].astype(np.uint64),
            size=rows["size"].astype(np.uint64),
            kind=info & np.uint8(0xF),
            binding=info >> np.uint8(4),
            shndx=shndx,
            limit=np.array(limits, np.uint64)[inside],
            text=np.array(code, np.bool_)[inside],
        )
