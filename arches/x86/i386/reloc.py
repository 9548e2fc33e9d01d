"""i386 relocations of modules: number, formula, field; addends stand in the field.

Addresses have 32 bits and wrap, and so do the distances between them: a field
takes every value, and nothing is ever out of reach.

Source: System V ABI, Intel386 supplement, section 4.4 "Relocation".
"""

from __future__ import annotations

from elftools.elf.enums import ENUM_RELOC_TYPE_i386

from .. import reloc
from ..reloc import Type, absolute, relative

TYPES = {
    1: Type(absolute, 4, reloc.anything),  # R_386_32     S + A
    2: Type(relative, 4, reloc.anything),  # R_386_PC32   S + A - P
    # No PLT in a kernel: the procedure is reached directly.
    4: Type(relative, 4, reloc.anything),  # R_386_PLT32  L + A - P with L = S
}

ABI = reloc.Abi(
    prefix="R_386_",
    names={number: name for name, number in ENUM_RELOC_TYPE_i386.items() if name != "_default_"},
    types=TYPES,
    explicit=False,
)
