"""What a module's file has for text that is loaded: bytes before relocation, and what they lack.

insmod writes relocated bytes into the guest, and on some machines changes the
instruction behind a call as well; what it began with stands only in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..elf.headers import Section
from ..elf.structs import SHT_REL, SHT_RELA
from ..module import Module


@dataclass(frozen=True, slots=True)
class Pending:
    """A relocation that the file asks for."""

    place: int
    """Address of its field, where the module is loaded."""
    kind: str
    """The ABI's name of its type."""
    symbol: str
    """Its name; empty for one without, such as that of a section."""


@dataclass(frozen=True, slots=True)
class FileText:
    """Bytes as a file has them, and the relocations of fields that begin among them."""

    address: int
    """Where they are loaded."""
    data: bytes
    pending: tuple[Pending, ...] = ()


def file_text(modules: Sequence[Module], address: int, size: int) -> FileText | None:
    """The `size` bytes that the files of loaded `modules` have for an address; None without."""
    for module in modules:
        for index, base in module.linked.bases.items():
            section = module.image.sections[index]
            stored = module.image.data(section)[max(address - base, 0) :][:size]
            if address >= base and len(stored) == size:
                pending = tuple(_pending(module, section, address, address + size))
                return FileText(address, stored.tobytes(), pending)
    return None


def _pending(module: Module, section: Section, start: int, end: int) -> Iterator[Pending]:
    """The relocations of `section` whose fields begin in `start` to `end` (exclusive)."""
    image = module.image
    base = module.linked.bases[section.index]
    for table in image.sections:
        if table.type not in (SHT_REL, SHT_RELA) or table.info != section.index or not table.size:
            continue
        found = image.relocation_table(table)
        place = found.offset + np.uint64(base)
        for row in np.flatnonzero((place >= start) & (place < end)).tolist():
            kind = module.port.relocation_name(int(found.kind[row]))
            symbol = int(found.symbol[row])
            name = image.symbols.names[symbol] if symbol else ""
            yield Pending(int(place[row]), kind, name)
