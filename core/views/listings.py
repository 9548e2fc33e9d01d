"""The list of call sites, entry by entry, and the record made of each entry.

The compiler, or a tool that reads its output, writes the address of every call site into a
section. The linker gathers these sections, and ftrace reads the list at boot or when a module
is loaded. ftrace does not search code for calls; a kernel built with
`-fpatchable-function-entry` does not even contain any. Entries are addresses, so a relocatable file
may have zeros with a relocation for each.

Sources: GCC manual, "Instrumentation Options"; the kernel's
Documentation/trace/ftrace-design.rst, HAVE_FTRACE_MCOUNT_RECORD.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..arch import Port
from ..elf.image import Image
from ..elf.relocations import RelocationTable
from ..elf.structs import SHN_LORESERVE, SHT_REL, SHT_RELA
from ..ftrace.records import Records
from ..ftrace.sites import SiteTable, rec_ips, site_table
from ..machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list."""

    number: int
    place: int
    """Address of the entry, as loaded."""
    stored: int
    """The entry's value in the file."""
    relocation: str
    """Type, symbol and addend of the entry's relocation in the file; empty for none."""
    value: int
    """The entry's value in guest memory, before `rec_ips`."""
    row: int | None
    """The record made from it; None for the linker's padding."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The list of one loaded file."""

    file: str
    compiled: str
    """The section that has the list in an object, before linking."""
    by_compiler: bool | None
    """Whether the compiler wrote the list; false if the build made it from the compiler's
    assembly, None if unknown."""
    section: str
    """The section of the file that contains the list."""
    address: int
    count: int
    word: int
    """Size of an entry in bytes."""
    source: str
    """How the list was located."""
    entries: tuple[Entry, ...]


def listings(
    port: Port,
    image: Image,
    bases: Mapping[int, int],
    memory: Memory,
    records: Records,
    rows: Collection[int] | None = None,
) -> list[Listing]:
    """Return the lists of `image`, whose sections are loaded at `bases`: mostly one.

    With `rows`, return only the entries of those records. Raises `ImageError`.
    """
    table = site_table(port, image, bases)
    tables = () if table is None else (table, *table.others)
    return [_listing(port, image, bases, memory, records, rows, each) for each in tables]


def _listing(
    port: Port,
    image: Image,
    bases: Mapping[int, int],
    memory: Memory,
    records: Records,
    rows: Collection[int] | None,
    table: SiteTable,
) -> Listing:
    """Return one list of `image`."""
    word, sections = port.facts.pointer_size, port.facts.sites.sections
    values = image.words(memory.read(table.address, table.size))
    stored = image.words(_stored(image, table, bases[table.section.index]))
    found = np.full(len(values), -1, np.intp)
    filled = values != 0
    found[filled] = records.rows_of(rec_ips(port, image, bases, values[filled]))
    asked = _relocations(port, image, table, bases[table.section.index])
    shown = np.arange(len(values)) if rows is None else np.flatnonzero(np.isin(found, [*rows]))
    compiled = table.section.name
    compiled = sections[0] if sections and compiled not in sections else compiled
    return Listing(
        image.path.name,
        compiled,
        _by_compiler(image, compiled),
        table.section.name,
        table.address,
        len(values),
        word,
        table.source,
        tuple(
            Entry(
                number,
                table.address + number * word,
                int(stored[number]) if number < len(stored) else 0,
                asked.get(table.address + number * word, ""),
                int(values[number]),
                None if found[number] < 0 else int(found[number]),
            )
            for number in shown.tolist()
        ),
    )


_BUILD = "BUILD.txt"
"""The file beside built images that says how they were made."""


def _by_compiler(image: Image, section: str) -> bool | None:
    """Return whether the compiler wrote the list of `image`; None if nothing says so."""
    if section == "__patchable_function_entries":
        return True
    try:
        build = image.path.with_name(_BUILD).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    made = next((line for line in build.splitlines() if line.startswith("Call sites: ")), None)
    return None if made is None else "their table by sed" not in made


def _stored(image: Image, table: SiteTable, base: int) -> bytes:
    """Return the list as the file has it, before relocation."""
    if not image.relocatable:
        found = image.stored(table.address, table.size)
        return b"" if found is None else found.tobytes()
    start = table.address - base
    return image.data(table.section)[start : start + table.size].tobytes()


def _relocations(port: Port, image: Image, table: SiteTable, base: int) -> dict[int, str]:
    """Return the relocations of the list's words as text, by address."""
    asked: dict[int, str] = {}
    for section in image.sections:
        if section.type not in (SHT_REL, SHT_RELA) or not section.size:
            continue
        if image.relocatable and section.info != table.section.index:
            continue
        found = image.relocation_table(section)
        place = found.offset + np.uint64(base if image.relocatable else 0)
        inside = (place >= table.address) & (place < table.address + table.size)
        for row in np.flatnonzero(inside).tolist():
            kind = port.relocation_name(int(found.kind[row]))
            asked[int(place[row])] = f"{kind} {_value(image, found, row)}".rstrip()
    return asked


def _value(image: Image, table: RelocationTable, row: int) -> str:
    """Return the symbol and the addend of a relocation, if present."""
    symbol = int(table.symbol[row])
    addend = 0 if table.addend is None else int(table.addend[row])
    name = image.symbols.names[symbol] if symbol else ""
    if symbol and not name:
        shndx = int(image.symbols.shndx[symbol])
        name = image.sections[shndx].name if shndx < SHN_LORESERVE else ""
    if not name:
        return f"{addend % (1 << 8 * image.facts.pointer_size):x}" if addend else ""
    return f"{name}{addend:+#x}" if addend else name
