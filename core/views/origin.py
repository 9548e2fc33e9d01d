"""Where records come from: the compiler's list of call sites, entry by entry.

Nothing calls mcount in a kernel built with `-fpatchable-function-entry`, and
nobody looks for calls in others: the compiler writes the address of every site
it makes into a section, the linker gathers those, and ftrace reads the list at
boot, or when a module comes in. The entries are addresses, so what the file has
may be no more than a relocation that asks for one.

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
from ..ftrace.sites import SiteTable, site_table
from ..machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list."""

    number: int
    place: int
    """Its address, where it is loaded."""
    stored: int
    """What the file has there."""
    relocation: str
    """What the file asks to be put there: type, symbol and addend; empty for nothing."""
    value: int
    """What guest memory has there: the site, before `call_adjust`."""
    row: int | None
    """The record made from it; None for none, as of the linker's padding."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The list of one loaded file."""

    file: str
    compiled: str
    """The section that the compiler writes."""
    section: str
    """The section of the file it is in now."""
    address: int
    count: int
    word: int
    """Bytes of an entry."""
    entries: tuple[Entry, ...]


def listing(
    port: Port,
    image: Image,
    bases: Mapping[int, int],
    memory: Memory,
    records: Records,
    rows: Collection[int] | None = None,
) -> Listing | None:
    """The list of `image`, loaded with its sections at `bases`; None where it has none.

    With `rows` only the entries of those records. Raises `ImageError`.
    """
    table = site_table(port, image, bases)
    if table is None:
        return None
    word = port.facts.pointer_size
    values = image.words(memory.read(table.address, table.size))
    stored = image.words(_stored(image, table, bases[table.section.index]))
    found = records.rows_of(port.call_adjust(values))
    found[values == 0] = -1
    asked = _relocations(port, image, table, bases[table.section.index])
    shown = np.arange(len(values)) if rows is None else np.flatnonzero(np.isin(found, [*rows]))
    return Listing(
        image.path.name,
        port.facts.sites.sections[0],
        table.section.name,
        table.address,
        len(values),
        word,
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


def _stored(image: Image, table: SiteTable, base: int) -> bytes:
    """What the file has for the list, before anything is relocated."""
    if not image.relocatable:
        found = image.stored(table.address, table.size)
        return b"" if found is None else found.tobytes()
    start = table.address - base
    return image.data(table.section)[start : start + table.size].tobytes()


def _relocations(port: Port, image: Image, table: SiteTable, base: int) -> dict[int, str]:
    """The relocations of the list's words, by address, in words."""
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
    """Symbol and addend of a relocation, as far as it has them."""
    symbol = int(table.symbol[row])
    addend = 0 if table.addend is None else int(table.addend[row])
    name = image.symbols.names[symbol] if symbol else ""
    if symbol and not name:
        shndx = int(image.symbols.shndx[symbol])
        name = image.sections[shndx].name if shndx < SHN_LORESERVE else ""
    if not name:
        return f"{addend % (1 << 8 * image.facts.pointer_size):x}" if addend else ""
    return f"{name}{addend:+#x}" if addend else name
