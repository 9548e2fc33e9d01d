"""Batches of relocations for the tests of all ABIs, and GNU as and ld as an oracle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from dynftrace.core.arch import Relocations


def batch(place: int, *rows: tuple[int, int, int, int], explicit: bool = False) -> Relocations:
    """Rows of (type, offset, S, A) of a section at `place`; A is 0 unless `explicit`."""
    kind, offset, symbol, addend = zip(*rows, strict=True)
    return Relocations(
        np.array(kind, np.uint32),
        np.array(offset, np.uint64),
        np.array(offset, np.uint64) + np.uint64(place),
        np.array([value % 2**64 for value in symbol], np.uint64),
        np.array(addend, np.int64),
        external=np.zeros(len(rows), np.bool_),
        stub=np.zeros(len(rows), np.bool_),
        explicit=explicit,
    )


def linked(
    folder: Path, tools: str, flags: str, source: str, addresses: dict[str, int]
) -> tuple[bytes, bytes, list[tuple[int, int, int, int]]]:
    """`source` assembled with `flags`, then linked with its sections at `addresses`.

    Returns .text before and after, and its relocations for `batch`, as they are in the file.
    """
    (folder / "a.s").write_text(source)
    places = " ".join(f"{name} {at:#x} : {{ *({name}) }}" for name, at in addresses.items())
    discard = "/DISCARD/ : { *(.reginfo .MIPS.abiflags .MIPS.options .pdr .gnu.attributes) }"
    (folder / "a.lds").write_text(f"SECTIONS {{ {places} {discard} }}")
    for command in (
        [f"{tools}as", *flags.split(), "-o", "a.o", "a.s"],
        [f"{tools}ld", "-T", "a.lds", "-o", "a.elf", "a.o"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    with (folder / "a.o").open("rb") as before, (folder / "a.elf").open("rb") as after:
        old, new = ELFFile(before), ELFFile(after)
        symbols = old.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        rows = []
        for number, offset, kind, addend in _table(old):
            symbol = symbols.get_symbol(number)
            section = old.get_section(symbol["st_shndx"]).name
            rows.append((kind, offset, symbol["st_value"] + addresses[section], addend))
        texts = [file.get_section_by_name(".text").data() for file in (old, new)]
    return texts[0], texts[1], rows


def _table(file: ELFFile) -> list[tuple[int, int, int, int]]:
    """(symbol, offset, type, addend) of .text, taken apart here: pyelftools orders n64's anew."""
    order = "<" if file.little_endian else ">"
    wide = file.elfclass == 64
    names = ["offset", "info", "addend"][: 3 if wide else 2]
    fields = [
        (name, f"{order}{'i' if name == 'addend' else 'u'}{8 if wide else 4}") for name in names
    ]
    raw = file.get_section_by_name(".rela.text" if wide else ".rel.text").data()
    bits = 32 if wide else 8
    return [
        (info >> bits, offset, info % (1 << bits), addend[0] if addend else 0)
        for offset, info, *addend in np.frombuffer(raw, fields).tolist()
    ]
