"""The structures of ELF as numpy dtypes, for either word size and byte order.

A structured dtype per table turns a section of any length into arrays at once. pyelftools
supplies the names of numbers and reads DWARF. It does not read the tables: it makes a Python
object of each entry, which is slow, and trusts the offsets it finds, which is unsafe.

Source: System V ABI, chapter 4 "Object files" and chapter 5 "Program loading".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAGIC = b"\x7fELF"
IDENT_SIZE = 16
CLASSES = {4: 1, 8: 2}
"""EI_CLASS by word size in bytes."""
ORDERS = {"little": 1, "big": 2}
"""EI_DATA by byte order."""

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD = 1
PT_INTERP = 3
PF_X, PF_W = 1, 2
SHT_NULL, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 0, 2, 3, 4, 8, 9
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 1, 2, 4, 0x800
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Layouts:
    """The dtypes for one word size and byte order."""

    word: np.dtype[np.unsignedinteger]
    header: np.dtype[np.void]
    """The ELF header from e_type on, without e_ident."""
    section: np.dtype[np.void]
    segment: np.dtype[np.void]
    symbol: np.dtype[np.void]
    rel: np.dtype[np.void]
    rela: np.dtype[np.void]


def layouts(pointer_size: int, byteorder: str) -> Layouts:
    """Return the dtypes for words of `pointer_size` bytes (4 or 8) in `byteorder`."""
    order = "<" if byteorder == "little" else ">"
    half, word, xword = "u2", "u4", f"u{pointer_size}"

    def table(*fields: tuple[str, str]) -> np.dtype[np.void]:
        return np.dtype([(name, order + kind if kind != "u1" else kind) for name, kind in fields])

    header = table(
        *(("type", half), ("machine", half), ("version", word), ("entry", xword)),
        *(("phoff", xword), ("shoff", xword), ("flags", word), ("ehsize", half)),
        *(("phentsize", half), ("phnum", half), ("shentsize", half), ("shnum", half)),
        ("shstrndx", half),
    )
    section = table(
        *(("name", word), ("type", word), ("flags", xword), ("addr", xword), ("offset", xword)),
        *(("size", xword), ("link", word), ("info", word), ("addralign", xword)),
        ("entsize", xword),
    )
    sizes = (("filesz", xword), ("memsz", xword))
    places = (("offset", xword), ("vaddr", xword), ("paddr", xword))
    if pointer_size == 8:
        segment = table(("type", word), ("flags", word), *places, *sizes, ("align", xword))
        symbol = table(
            *(("name", word), ("info", "u1"), ("other", "u1"), ("shndx", half)),
            *(("value", xword), ("size", xword)),
        )
    else:
        segment = table(("type", word), *places, *sizes, ("flags", word), ("align", xword))
        symbol = table(
            *(("name", word), ("value", xword), ("size", xword)),
            *(("info", "u1"), ("other", "u1"), ("shndx", half)),
        )
    rel = table(("offset", xword), ("info", xword))
    rela = table(("offset", xword), ("info", xword), ("addend", f"i{pointer_size}"))
    return Layouts(np.dtype(order + xword), header, section, segment, symbol, rel, rela)


def machine_name(number: int) -> str:
    """Return pyelftools' name for `e_machine`, `EM_…`, or `machine N` if it has none."""
    from elftools.elf.enums import ENUM_E_MACHINE  # imported only for the rare sentence with it

    for name, value in ENUM_E_MACHINE.items():
        if value == number:
            return str(name)
    return f"machine {number}"
