"""The headers of an ELF file, read from bytes nobody vouches for.

Every size and offset is compared with the file before it is used; what is out
of bounds raises an `ImageError` that names file, section and offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError, WrongMachineError
from ..facts import Facts
from . import structs as elf
from .symbols import cut_names

MAX_LOAD = 1 << 30
"""Most bytes of guest memory an image may ask for."""

MAX_ALIGN = 1 << 24
"""Largest alignment of a section that makes sense, in bytes."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section header; `address` is 0 in relocatable files."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int

    @property
    def loaded(self) -> bool:
        """Whether it takes memory in the guest."""
        return bool(self.flags & elf.SHF_ALLOC) and self.size > 0

    @property
    def executable(self) -> bool:
        """Whether it holds code."""
        return bool(self.flags & elf.SHF_EXECINSTR)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class Segment:
    """A loadable segment: `filesz` bytes of the file at `address`, zeros up to `memsz`."""

    address: int
    offset: int
    filesz: int
    memsz: int
    flags: int

    @property
    def executable(self) -> bool:
        """Whether it is to be run."""
        return bool(self.flags & elf.PF_X)


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of a file, each within its bounds; made by `read`."""

    relocatable: bool
    movable: bool
    """Linked like a shared library: it may be loaded anywhere."""
    entry: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]


def read(path: str, raw: NDArray[np.uint8], facts: Facts) -> Headers:
    """Read and check the headers of the file `raw`.

    Raises `ImageError`, and `WrongMachineError` where the file is sound but for
    another machine, word size or byte order.
    """
    layouts = elf.layouts(facts.pointer_size, facts.byteorder)
    header = _file_header(path, raw, facts, layouts)
    segments = _segments(path, raw, facts, layouts, header)
    return Headers(
        relocatable=int(header["type"]) == elf.ET_REL,
        movable=int(header["type"]) == elf.ET_DYN,
        entry=int(header["entry"]),
        sections=_sections(path, raw, facts, layouts, header),
        segments=segments,
    )


def _file_header(path: str, raw: NDArray[np.uint8], facts: Facts, layouts: elf.Layouts) -> np.void:
    """The ELF header, of a type and machine that can be used."""
    ident = raw[: elf.IDENT_SIZE].tobytes()
    if not ident.startswith(elf.MAGIC):
        raise ImageError(path, "not an ELF file", offset=0)
    if len(ident) < elf.IDENT_SIZE:
        raise ImageError(path, f"truncated: {len(raw)} bytes do not hold the ELF header")
    words = {number: f"{size * 8}-bit" for size, number in elf.CLASSES.items()}
    orders = {number: f"{order}-endian" for order, number in elf.ORDERS.items()}
    if ident[4] not in words or ident[5] not in orders:
        raise ImageError(path, "its word size or byte order is none that ELF knows", offset=4)
    if (ident[4], ident[5]) != (elf.CLASSES[facts.pointer_size], elf.ORDERS[facts.byteorder]):
        found = f"{words[ident[4]]} {orders[ident[5]]}"
        wanted = f"{facts.pointer_size * 8}-bit {facts.byteorder}-endian"
        raise WrongMachineError(path, f"is {found}, and {facts.name} is {wanted}", offset=4)
    size = elf.IDENT_SIZE + layouts.header.itemsize
    if len(raw) < size:
        raise ImageError(path, f"truncated: {len(raw)} bytes do not hold the ELF header")
    header: np.void = raw[elf.IDENT_SIZE : size].view(layouts.header)[0]
    machine = elf.machine_name(int(header["machine"]))
    if machine != facts.elf_machine:
        raise WrongMachineError(
            path,
            f"is for {machine}, and {facts.name} is {facts.elf_machine}",
            offset=elf.IDENT_SIZE + 2,
        )
    flags = facts.elf_flags
    if flags is not None and int(header["flags"]) & flags.mask not in flags.allowed:
        of_file = int(header["flags"]) & flags.mask
        raise WrongMachineError(
            path, f"is for another ABI (e_flags {of_file:#x}), and {facts.name} is {flags.name}"
        )
    if int(header["type"]) not in (elf.ET_REL, elf.ET_EXEC, elf.ET_DYN):
        raise ImageError(path, "neither executable nor relocatable", offset=elf.IDENT_SIZE)
    return header


def _rows(
    path: str, raw: NDArray[np.uint8], what: str, offset: int, count: int, layout: np.dtype[np.void]
) -> NDArray[np.void]:
    """`count` rows of the table of `what` headers at `offset`."""
    size = count * layout.itemsize
    if offset + size > len(raw):
        raise ImageError(
            path,
            f"truncated: {count} {what} headers take {size} bytes, and the file ends at "
            f"{len(raw):#x}",
            offset=offset,
        )
    return raw[offset : offset + size].view(layout)


def _sections(
    path: str, raw: NDArray[np.uint8], facts: Facts, layouts: elf.Layouts, header: np.void
) -> tuple[Section, ...]:
    """The section headers with their names, each section within the file."""
    offset, count, names_at = (int(header[field]) for field in ("shoff", "shnum", "shstrndx"))
    if offset == 0:
        return ()
    if int(header["shentsize"]) != layouts.section.itemsize:
        size = int(header["shentsize"])
        raise ImageError(path, f"its section headers have {size} bytes each", offset=offset)
    first = _rows(path, raw, "section", offset, 1, layouts.section)[0]
    # Numbers that do not fit the ELF header stand in the first section header.
    count = count or int(first["size"])
    names_at = int(first["link"]) if names_at == elf.SHN_XINDEX else names_at
    rows = _rows(path, raw, "section", offset, count, layouts.section)
    fields = ("type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize")
    columns = [rows[field].tolist() for field in fields]
    sections = [Section(row, "", *values) for row, values in enumerate(zip(*columns, strict=True))]
    if not sections:
        return ()
    names = _section_names(path, raw, sections, names_at, rows["name"].astype(np.uint32))
    named = tuple(
        Section(row, name, *values)
        for row, (name, values) in enumerate(zip(names, zip(*columns, strict=True), strict=True))
    )
    for section in named[1:]:
        _check_section(path, len(raw), section)
    total = sum(section.size for section in named if section.flags & elf.SHF_ALLOC)
    if total > MAX_LOAD:
        raise ImageError(path, f"its sections ask for {total:#x} bytes of memory")
    return named


def _section_names(
    path: str,
    raw: NDArray[np.uint8],
    sections: list[Section],
    names_at: int,
    offsets: NDArray[np.uint32],
) -> list[str]:
    """The names at `offsets` of the section `names_at`; empty where that is 0."""
    if names_at == 0:
        return [""] * len(sections)
    if names_at >= len(sections):
        raise ImageError(path, f"section names stand in section {names_at}, which does not exist")
    table = string_table(path, raw, sections[names_at])
    beyond = offsets >= len(table)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ImageError(path, f"the name of section {row} lies outside the section names")
    return cut_names(table, offsets)


def _check_section(path: str, file_size: int, section: Section) -> None:
    """Raise `ImageError` unless `section` lies within the file and its numbers make sense."""
    name = section.name or f"[{section.index}]"

    def refuse(reason: str) -> ImageError:
        return ImageError(path, reason, section=name, offset=section.offset)

    end = section.offset + section.size
    if section.type not in (elf.SHT_NULL, elf.SHT_NOBITS) and end > file_size:
        raise refuse(f"truncated: it ends at {end:#x}, and the file at {file_size:#x}")
    if section.flags & elf.SHF_ALLOC and section.size > MAX_LOAD:
        raise refuse(f"it asks for {section.size:#x} bytes of memory")
    if section.align & (section.align - 1) or section.align > MAX_ALIGN:
        raise refuse(f"an alignment of {section.align:#x} makes no sense")


def _segments(
    path: str, raw: NDArray[np.uint8], facts: Facts, layouts: elf.Layouts, header: np.void
) -> tuple[Segment, ...]:
    """The loadable segments, each within the file and apart from the others."""
    offset, count = int(header["phoff"]), int(header["phnum"])
    if offset == 0 or count == 0:
        return ()
    if int(header["phentsize"]) != layouts.segment.itemsize:
        size = int(header["phentsize"])
        raise ImageError(path, f"its program headers have {size} bytes each", offset=offset)
    rows = _rows(path, raw, "program", offset, count, layouts.segment)
    rows = rows[(rows["type"] == elf.PT_LOAD) & (rows["memsz"] > 0)]
    fields = ("vaddr", "offset", "filesz", "memsz", "flags")
    columns = [rows[field].tolist() for field in fields]
    segments = [Segment(*values) for values in zip(*columns, strict=True)]
    for segment in segments:
        offset = segment.offset
        if segment.offset + segment.filesz > len(raw):
            reason = (
                f"truncated: the segment for {segment.address:#x} ends at "
                f"{segment.offset + segment.filesz:#x}, and the file at {len(raw):#x}"
            )
            raise ImageError(path, reason, offset=offset)
        if segment.filesz > segment.memsz:
            raise ImageError(
                path, "a segment has more bytes in the file than in memory", offset=offset
            )
        if segment.memsz > MAX_LOAD:
            raise ImageError(
                path, f"a segment asks for {segment.memsz:#x} bytes of memory", offset=offset
            )
        if segment.address + segment.memsz > 1 << (facts.pointer_size * 8):
            raise ImageError(
                path, "a segment goes past the end of the address space", offset=offset
            )
    total = sum(segment.memsz for segment in segments)
    if total > MAX_LOAD:
        raise ImageError(path, f"its segments ask for {total:#x} bytes of memory", offset=offset)
    ordered = sorted(segments, key=lambda segment: segment.address)
    for low, high in pairwise(ordered):
        if low.address + low.memsz > high.address:
            raise ImageError(path, f"two segments overlap at {high.address:#x}", offset=high.offset)
    return tuple(segments)


def string_table(path: str, raw: NDArray[np.uint8], section: Section) -> NDArray[np.uint8]:
    """The bytes of a string table, which must be one, within the file, and end in NUL."""
    name = section.name or f"[{section.index}]"
    if section.type != elf.SHT_STRTAB:
        raise ImageError(path, "names stand in a section that is no string table", section=name)
    end = section.offset + section.size
    if end > len(raw):
        raise ImageError(
            path,
            f"truncated: it ends at {end:#x}, and the file at {len(raw):#x}",
            section=name,
            offset=section.offset,
        )
    table = raw[section.offset : end]
    if not len(table) or table[-1] != 0:
        raise ImageError(
            path, "its last string has no end", section=name, offset=section.offset + len(table)
        )
    return table
