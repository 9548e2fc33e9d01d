"""The headers of an ELF file, which is untrusted input.

Every size and offset is compared with the size of the file before it is used. A value out of bounds
raises an `ImageError` that names the file, the section and the offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError, WrongMachineError
from ..facts import FileFacts
from . import structs as elf
from .symbols import cut_names

MAX_LOAD = 1 << 30
"""Limit for the guest memory that an image needs, in bytes."""

MAX_ALIGN = 1 << 24
"""Limit for the alignment of a section, in bytes."""


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
        """Whether it occupies guest memory."""
        return bool(self.flags & elf.SHF_ALLOC) and self.size > 0

    @property
    def executable(self) -> bool:
        """Whether it contains code."""
        return bool(self.flags & elf.SHF_EXECINSTR)

    @property
    def end(self) -> int:
        """The first address after it."""
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
        """Whether it contains code."""
        return bool(self.flags & elf.PF_X)

    @property
    def writable(self) -> bool:
        """Whether a program may change it."""
        return bool(self.flags & elf.PF_W)


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of a file, checked against its size; made by `read`."""

    relocatable: bool
    movable: bool
    """Whether it is linked like a shared library (ET_DYN), to be loaded anywhere."""
    entry: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]


def read(path: str, raw: NDArray[np.uint8], facts: FileFacts) -> Headers:
    """Read and check the headers of the file `raw`.

    Raises `WrongMachineError` for a valid file of another machine, word size, byte order or
    ABI, and `ImageError` for an invalid one.
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


def _file_header(
    path: str, raw: NDArray[np.uint8], facts: FileFacts, layouts: elf.Layouts
) -> np.void:
    """Return the ELF header after checking its type, machine and flags."""
    ident = raw[: elf.IDENT_SIZE].tobytes()
    if not ident.startswith(elf.MAGIC):
        raise ImageError(path, "not an ELF file, and no kernel or module was found in it")
    if len(ident) < elf.IDENT_SIZE:
        raise ImageError(path, f"truncated: {len(raw)} bytes do not hold the ELF header")
    words = {number: f"{size * 8}-bit" for size, number in elf.CLASSES.items()}
    orders = {number: f"{order}-endian" for order, number in elf.ORDERS.items()}
    if ident[4] not in words or ident[5] not in orders:
        raise ImageError(path, "invalid word size or byte order in the ELF header", offset=4)
    if (ident[4], ident[5]) != (elf.CLASSES[facts.pointer_size], elf.ORDERS[facts.byteorder]):
        found = f"{words[ident[4]]} {orders[ident[5]]}"
        wanted = f"{facts.pointer_size * 8}-bit {facts.byteorder}-endian"
        raise WrongMachineError(path, f"is {found}, but {facts.name} is {wanted}", offset=4)
    size = elf.IDENT_SIZE + layouts.header.itemsize
    if len(raw) < size:
        raise ImageError(path, f"truncated: {len(raw)} bytes do not hold the ELF header")
    header: np.void = raw[elf.IDENT_SIZE : size].view(layouts.header)[0]
    machine = int(header["machine"])
    if machine != facts.elf_machine:
        found, wanted = elf.machine_name(machine), elf.machine_name(facts.elf_machine)
        raise WrongMachineError(
            path,
            f"is for {found}, but {facts.name} is {wanted}",
            offset=elf.IDENT_SIZE + 2,
        )
    flags = facts.elf_flags
    if flags is not None and int(header["flags"]) & flags.mask not in flags.allowed:
        of_file = int(header["flags"]) & flags.mask
        raise WrongMachineError(
            path, f"is for another ABI (e_flags {of_file:#x}): {facts.name} is {flags.name}"
        )
    if int(header["type"]) not in (elf.ET_REL, elf.ET_EXEC, elf.ET_DYN):
        raise ImageError(path, "neither executable nor relocatable", offset=elf.IDENT_SIZE)
    return header


def _rows(
    path: str, raw: NDArray[np.uint8], what: str, offset: int, count: int, layout: np.dtype[np.void]
) -> NDArray[np.void]:
    """Return the table of `count` `what` headers at `offset`. Raises `ImageError`."""
    size = count * layout.itemsize
    if offset + size > len(raw):
        raise ImageError(
            path,
            f"truncated: {count} {what} headers take {size} bytes, but the file ends at "
            f"{len(raw):#x}",
            offset=offset,
        )
    return raw[offset : offset + size].view(layout)


def _sections(
    path: str, raw: NDArray[np.uint8], facts: FileFacts, layouts: elf.Layouts, header: np.void
) -> tuple[Section, ...]:
    """Return the section headers with their names, after checking each section."""
    offset, count, names_at = (int(header[field]) for field in ("shoff", "shnum", "shstrndx"))
    if offset == 0:
        return ()
    if int(header["shentsize"]) != layouts.section.itemsize:
        size = int(header["shentsize"])
        raise ImageError(
            path,
            f"a section header has {size} bytes instead of {layouts.section.itemsize}",
            offset=offset,
        )
    first = _rows(path, raw, "section", offset, 1, layouts.section)[0]
    # Numbers too large for the ELF header are in the first section header.
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
        _check_section(path, len(raw), facts, section)
    total = sum(section.size for section in named if section.flags & elf.SHF_ALLOC)
    if total > MAX_LOAD:
        raise ImageError(
            path, f"its sections need {total:#x} bytes of memory; the limit is {MAX_LOAD:#x}"
        )
    return named


def _section_names(
    path: str,
    raw: NDArray[np.uint8],
    sections: list[Section],
    names_at: int,
    offsets: NDArray[np.uint32],
) -> list[str]:
    """Return the names at `offsets` of the section `names_at`; empty names if that is 0."""
    if names_at == 0:
        return [""] * len(sections)
    if names_at >= len(sections):
        raise ImageError(path, f"its section names are in section {names_at}, which does not exist")
    table = string_table(path, raw, sections[names_at])
    beyond = offsets >= len(table)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ImageError(path, f"the name of section {row} is outside the section name table")
    return cut_names(table, offsets)


def _check_section(path: str, file_size: int, facts: FileFacts, section: Section) -> None:
    """Raise `ImageError` unless `section` has a valid size, place and alignment."""
    name = section.name or f"[{section.index}]"

    def refuse(reason: str) -> ImageError:
        return ImageError(path, reason, section=name, offset=section.offset)

    end = section.offset + section.size
    if section.type not in (elf.SHT_NULL, elf.SHT_NOBITS) and end > file_size:
        raise refuse(f"truncated: it ends at {end:#x}, but the file ends at {file_size:#x}")
    if section.flags & elf.SHF_ALLOC and section.size > MAX_LOAD:
        raise refuse(f"it needs {section.size:#x} bytes of memory; the limit is {MAX_LOAD:#x}")
    if section.loaded and section.end > 1 << (facts.pointer_size * 8):
        raise refuse(f"it ends at {section.end:#x}, outside the address space")
    if section.align & (section.align - 1) or section.align > MAX_ALIGN:
        raise refuse(f"invalid alignment {section.align:#x}")


def _segments(
    path: str, raw: NDArray[np.uint8], facts: FileFacts, layouts: elf.Layouts, header: np.void
) -> tuple[Segment, ...]:
    """Return the loadable segments, after checking that each is in the file and none overlap."""
    offset, count = int(header["phoff"]), int(header["phnum"])
    if offset == 0 or count == 0:
        return ()
    if int(header["phentsize"]) != layouts.segment.itemsize:
        size = int(header["phentsize"])
        raise ImageError(
            path,
            f"a program header has {size} bytes instead of {layouts.segment.itemsize}",
            offset=offset,
        )
    rows = _rows(path, raw, "program", offset, count, layouts.segment)
    if (rows["type"] == elf.PT_INTERP).any():
        raise ImageError(path, "a user-space program: expected a kernel or module")
    rows = rows[(rows["type"] == elf.PT_LOAD) & (rows["memsz"] > 0)]
    fields = ("vaddr", "offset", "filesz", "memsz", "flags")
    columns = [rows[field].tolist() for field in fields]
    segments = [Segment(*values) for values in zip(*columns, strict=True)]
    for segment in segments:
        offset = segment.offset
        if segment.offset + segment.filesz > len(raw):
            reason = (
                f"truncated: the segment for {segment.address:#x} ends at "
                f"{segment.offset + segment.filesz:#x}, but the file ends at {len(raw):#x}"
            )
            raise ImageError(path, reason, offset=offset)
        if segment.filesz > segment.memsz:
            raise ImageError(
                path, "a segment has more bytes in the file than in memory", offset=offset
            )
        if segment.memsz > MAX_LOAD:
            raise ImageError(
                path,
                f"a segment needs {segment.memsz:#x} bytes of memory; the limit is {MAX_LOAD:#x}",
                offset=offset,
            )
        if segment.address + segment.memsz > 1 << (facts.pointer_size * 8):
            raise ImageError(path, "a segment ends outside the address space", offset=offset)
    total = sum(segment.memsz for segment in segments)
    if total > MAX_LOAD:
        raise ImageError(
            path,
            f"its segments need {total:#x} bytes of memory; the limit is {MAX_LOAD:#x}",
            offset=offset,
        )
    ordered = sorted(segments, key=lambda segment: segment.address)
    for low, high in pairwise(ordered):
        if low.address + low.memsz > high.address:
            raise ImageError(path, f"two segments overlap at {high.address:#x}", offset=high.offset)
    return tuple(segments)


def string_table(path: str, raw: NDArray[np.uint8], section: Section) -> NDArray[np.uint8]:
    """Return the bytes of the string table `section`.

    Raises `ImageError` unless it is a string table within the file that ends in NUL.
    """
    name = section.name or f"[{section.index}]"
    if section.type != elf.SHT_STRTAB:
        raise ImageError(path, "names are in a section that is not a string table", section=name)
    end = section.offset + section.size
    if end > len(raw):
        raise ImageError(
            path,
            f"truncated: it ends at {end:#x}, but the file ends at {len(raw):#x}",
            section=name,
            offset=section.offset,
        )
    table = raw[section.offset : end]
    if not len(table) or table[-1] != 0:
        raise ImageError(
            path,
            "its last string has no terminating NUL",
            section=name,
            offset=section.offset + len(table),
        )
    return table
