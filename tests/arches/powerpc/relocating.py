"""Batches of relocations for the tests of both ABIs, and GNU as and ld as an oracle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from dynftrace.core.arch import Relocations


def batch(
    place: int,
    *rows: tuple[int, int, int, int],
    toc: int = 0,
    external: tuple[int, ...] = (),
    stub: tuple[int, ...] = (),
) -> Relocations:
    """Rows of (type, offset, S, A) of a section at `place`.

    `external` and `stub` number the rows against symbols of others, and those of
    them whose S is a stub.
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
    )


def linked(
    folder: Path, tools: str, source: str, addresses: dict[str, int], *options: str
) -> tuple[bytes, bytes, list[tuple[int, int, int, int]]]:
    """`source` assembled, then linked by `ld options` with its sections at `addresses`.

    Returns .text before and after, and its relocations for `batch`.
    """
    (folder / "a.s").write_text(source)
    places = " ".join(f"{name} {at:#x} : {{ *({name}) }}" for name, at in addresses.items())
    (folder / "a.lds").write_text(f"SECTIONS {{ {places} }}")
    for command in (
        [f"{tools}as", "-o", "a.o", "a.s"],
        [f"{tools}ld", *options, "-T", "a.lds", "-o", "a.elf", "a.o"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    with (folder / "a.o").open("rb") as before, (folder / "a.elf").open("rb") as after:
        old, new = ELFFile(before), ELFFile(after)
        symbols, table = (old.get_section_by_name(name) for name in (".symtab", ".rela.text"))
        assert isinstance(symbols, SymbolTableSection) and isinstance(table, RelocationSection)
        rows = []
        for each in table.iter_relocations():
            symbol = symbols.get_symbol(each["r_info_sym"])
            value = symbol["st_value"]
            if each["r_info_sym"]:  # R_PPC64_TOC has no symbol
                value += addresses[old.get_section(symbol["st_shndx"]).name]
            rows.append((each["r_info_type"], each["r_offset"], value, each["r_addend"]))
        texts = [file.get_section_by_name(".text").data() for file in (old, new)]
    return texts[0], texts[1], rows
