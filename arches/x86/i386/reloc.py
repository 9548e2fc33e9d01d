"""i386 relocations of modules: number, formula, field; addends are in the field (REL).

Addresses have 32 bits and wrap around, and so do the distances between them: a field takes every
value, and nothing is ever out of reach.

Source: System V ABI, Intel386 supplement, section 4.4 "Relocation".
"""

from __future__ import annotations

from ....core.elf.relocate import (
    WORD32,
    RelocationAbi,
    RelocationType,
    absolute,
    relative,
)

TYPES = {
    1: RelocationType(WORD32, absolute),  # R_386_32     S + A
    2: RelocationType(WORD32, relative),  # R_386_PC32   S + A - P
    # No PLT in a kernel: the procedure is reached directly.
    4: RelocationType(WORD32, relative),  # R_386_PLT32  L + A - P with L = S
}

ABI = RelocationAbi(
    prefix="R_386_",
    enum="ENUM_RELOC_TYPE_i386",
    types=TYPES,
    bits=32,
    byteorder="little",
    explicit=False,
)
