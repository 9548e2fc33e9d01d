"""A port's entry code at an address: its entry.o, or its entry.S assembled.

entry.o is entry.S as GNU as assembled it when the images were built, and its section
`.entry_source` has the SHA-256 of the text. If the text is still the same, entry.o is linked.
Otherwise, or without an entry.o, Keystone assembles the text: an entry.S that someone has
changed, and that of a port whose images were built without one.
"""

from __future__ import annotations

import hashlib

from ..arch import EntryCode, Port
from ..asm.assemble import Resolver, assemble
from ..elf import structs as elf
from ..elf.image import Image
from ..elf.linker import layout, link
from ..errors import AssemblyError, NoAssemblerError

NAME = "entry.o"
SOURCE_HASH = ".entry_source"
"""The section of entry.o with the SHA-256 of the source, as 64 hexadecimal digits."""

_TEXT = ".text"


def entry_code(port: Port, address: int, resolve: Resolver, source: str | None = None) -> EntryCode:
    """Return the entry code of `port` for `address`; `source` replaces the text of its entry.S.

    Raises `AssemblyError`, `ImageError` for an entry.o that cannot be used, and the errors of
    `link`.
    """
    text = port.entry_source() if source is None else source
    made = _built(port, text)
    if made is not None:
        return _linked(port, made, address, resolve)
    try:
        return assemble(port.facts, text, address, resolve)
    except NoAssemblerError as error:
        raise AssemblyError(
            f"{NAME} was not built from this entry.S: install the package keystone-engine, "
            "which assembles it, or run `make images`",
            text,
        ) from error


def _built(port: Port, text: str) -> Image | None:
    """Return the entry.o of `port`, or None if there is none for this `text` of entry.S."""
    path = port.images() / NAME
    if not path.is_file():
        return None
    image = Image.load(path, port.facts)
    section = image.section(SOURCE_HASH)
    expected = hashlib.sha256(text.encode()).hexdigest()
    found = None if section is None else image.data(section).tobytes()
    return image if found == expected.encode() else None


def _linked(port: Port, image: Image, address: int, resolve: Resolver) -> EntryCode:
    """Return the code of `image` for `address`; its global symbols are the exported labels."""
    text = image.section(_TEXT)
    if text is None:
        raise image.error(f"section {_TEXT} is missing: run `make images`")
    linked = link(port, image, NAME, layout(image), address, resolve)
    table = linked.symbols
    exported = (table.binding == elf.STB_GLOBAL) & (table.shndx == text.index)
    base = linked.bases[text.index]
    labels = {
        table.names[row]: int(table.address[row]) - base for row in exported.nonzero()[0].tolist()
    }
    return EntryCode(linked.content[text.index].tobytes(), labels)
