"""The files that a machine was loaded from, and their text before and after relocation.

insmod writes relocated bytes into the guest, and on some machines also changes the
instruction after a call. The original text is only in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..elf.headers import Section
from ..elf.image import Image
from ..elf.structs import SHT_REL, SHT_RELA
from ..modules.module import Module, Modules


@dataclass(frozen=True, slots=True)
class Pending:
    """A relocation in the file."""

    place: int
    """Address of its field in the loaded module."""
    kind: str
    """The ABI's name of its type."""
    symbol: str
    """Name of its symbol; empty for a symbol without a name, such as a section's."""


@dataclass(frozen=True, slots=True)
class FileText:
    """Bytes of a file, and the relocations of fields that begin in them."""

    address: int
    """Guest address at which `data` is loaded."""
    data: bytes
    pending: tuple[Pending, ...] = ()


class LoadedFiles:
    """The files that a machine was loaded from: the kernel and its modules."""

    def __init__(self, kernel: Image, modules: Modules) -> None:
        self._kernel = kernel
        self._modules = modules

    def text(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes of relocated text at `address`; None if no file has them."""
        text = self._kernel.read(address, size)
        if text is not None:
            return text.tobytes()
        for module in self._modules.loaded:
            for index, content in module.linked.content.items():
                start = address - module.linked.bases[index]
                if start >= 0 and start + size <= len(content):
                    return content[start : start + size].tobytes()
        return None

    def stored(self, address: int, size: int) -> FileText | None:
        """Return the unrelocated text for `address` in a module's file; None without a file."""
        return file_text(self._modules.loaded, address, size)

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return file and line of the code at `address`, if debug information has them."""
        found = self._modules.source_line(address)
        return self._kernel.source_line(address) if found is None else found


def file_text(modules: Sequence[Module], address: int, size: int) -> FileText | None:
    """Return `size` bytes for `address` from the files of loaded `modules`, or None."""
    for module in modules:
        for index, base in module.linked.bases.items():
            section = module.image.sections[index]
            stored = module.image.data(section)[max(address - base, 0) :][:size]
            if address >= base and len(stored) == size:
                pending = tuple(_pending(module, section, address, address + size))
                return FileText(address, stored.tobytes(), pending)
    return None


def _pending(module: Module, section: Section, start: int, end: int) -> Iterator[Pending]:
    """Yield the relocations of `section` whose fields begin in `start` to `end` (exclusive)."""
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
