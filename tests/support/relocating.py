"""Batches of relocations for the tests of all ports, with GNU as and ld as the reference."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from dynftrace.core.arch import Relocations

DISCARDED = ".reginfo .MIPS.abiflags .MIPS.options .pdr .gnu.attributes"
"""Sections that MIPS assemblers add and a linker script would otherwise place."""


def batch(
    place: int,
    *rows: tuple[int, int, int, int],
    explicit: bool = True,
    toc: int = 0,
    external: tuple[int, ...] = (),
    stub: tuple[int, ...] = (),
) -> Relocations:
    """Make relocations of a section at `place` from rows of (type, offset, S, A).

    Without `explicit`, A must be 0. `external` lists the rows whose symbol another file
    defines, and `stub` those of them whose S is the address of a stub.
    """
    kind, offset, symbol, addend = zip(*rows, strict=True)
    numbers = np.arange(len(rows))
    return Relocations(
        np.array(kind, np.uint32),
        np.array(offset, np.uint64),
        np.array(offset, np.uint64) + np.uint64(place),
        np.array([value % 2**64 for value in symbol], np.uint64),
        np.array(addend, np.int64),
        external=np.isin(numbers, (*external, *stub)),
        stub=np.isin(numbers, stub),
        toc=toc,
        explicit=explicit,
    )


def linked(
    folder: Path,
    tools: str,
    source: str,
    addresses: dict[str, int],
    *options: str,
    flags: str = "",
) -> tuple[bytes, bytes, list[tuple[int, int, int, int]]]:
    """Assemble `source` with `flags`, and link it with `options` at `addresses` by section.

    Return .text before and after linking, and its relocations as rows for `batch`.
    """
    (folder / "a.s").write_text(source)
    places = " ".join(f"{name} {at:#x} : {{ *({name}) }}" for name, at in addresses.items())
    (folder / "a.lds").write_text(f"SECTIONS {{ {places} /DISCARD/ : {{ *({DISCARDED}) }} }}")
    for command in (
        [f"{tools}as", *flags.split(), "-o", "a.o", "a.s"],
        [f"{tools}ld", *options, "-T", "a.lds", "-o", "a.elf", "a.o"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    with (folder / "a.o").open("rb") as before, (folder / "a.elf").open("rb") as after:
        old, new = ELFFile(before), ELFFile(after)
        symbols = old.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        rows = []
        for number, offset, kind, addend in _table(old):
            symbol = symbols.get_symbol(number)
            value = symbol["st_value"]
            if number:  # R_PPC64_TOC has no symbol
                value += addresses[old.get_section(symbol["st_shndx"]).name]
            rows.append((kind, offset, value, addend))
        texts = [file.get_section_by_name(".text").data() for file in (old, new)]
    return texts[0], texts[1], rows


def _table(file: ELFFile) -> list[tuple[int, int, int, int]]:
    """Return (symbol, offset, type, addend) of .text; pyelftools splits n64's types."""
    order = "<" if file.little_endian else ">"
    size, bits = (8, 32) if file.elfclass == 64 else (4, 8)
    section = file.get_section_by_name(".rela.text")
    names = ["offset", "info", "addend"]
    if section is None:
        section, names = file.get_section_by_name(".rel.text"), names[:2]
    fields = [(name, f"{order}{'i' if name == 'addend' else 'u'}{size}") for name in names]
    return [
        (info >> bits, offset, info % (1 << bits), addend[0] if addend else 0)
        for offset, info, *addend in np.frombuffer(section.data(), fields).tolist()
    ]
