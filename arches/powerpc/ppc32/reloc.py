"""ppc32 relocations of modules: number, formula, field.

Addresses have 32 bits and wrap around, so a whole word takes every value, and two halves make
every address: `lis` with one, and `addi` or a load with the other. Only a branch can be too far
from its target.

Source: System V ABI, PowerPC Processor Supplement, chapter 4, "Relocation Types".
"""

from __future__ import annotations

from ....core.elf.relocate import (
    WORD32,
    RelocationAbi,
    RelocationType,
    absolute,
    relative,
    whole,
)
from ..reloc import BRANCH24, HALF16, LOW24, REL24, ha, hi

TYPES = {
    1: RelocationType(WORD32, absolute),  # ADDR32: S + A
    4: RelocationType(HALF16, absolute),  # ADDR16_LO: #lo(S + A)
    5: RelocationType(HALF16, absolute, hi),  # ADDR16_HI: #hi(S + A)
    6: RelocationType(HALF16, absolute, ha),  # ADDR16_HA: #ha(S + A)
    REL24: RelocationType(LOW24, relative, whole, BRANCH24),  # REL24: S + A - P
    23: RelocationType(LOW24, relative, whole, BRANCH24),  # LOCAL24PC: S + A - P
    26: RelocationType(WORD32, relative),  # REL32: S + A - P
}

ABI = RelocationAbi(
    prefix="R_PPC_",
    enum="ENUM_RELOC_TYPE_PPC",
    types=TYPES,
    bits=32,
    byteorder="big",
    explicit=True,
)
