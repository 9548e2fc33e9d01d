"""ppc32 relocations of modules: number, formula, field.

Addresses have 32 bits and wrap, so a whole word takes every value, and two
halves, `lis` with the one and `addi` or a load with the other, make every
address; only a branch can be too far from its target.

Source: System V ABI, PowerPC Processor Supplement, chapter 4, "Relocation Types".
"""

from __future__ import annotations

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_PPC
from numpy.typing import NDArray

from ....core.arch import Relocations
from .. import reloc
from ..reloc import HALF16, LOW24, WORD32, Type

REL24 = 10
"""The field of `bl`."""

TYPES = {
    1: Type(WORD32, reloc.absolute, reloc.whole, reloc.anything),  # ADDR32: S + A
    4: Type(HALF16, reloc.absolute, reloc.whole, reloc.anything),  # ADDR16_LO: #lo(S + A)
    5: Type(HALF16, reloc.absolute, reloc.hi, reloc.anything),  # ADDR16_HI: #hi(S + A)
    6: Type(HALF16, reloc.absolute, reloc.ha, reloc.anything),  # ADDR16_HA: #ha(S + A)
    REL24: Type(LOW24, reloc.relative, reloc.whole, reloc.branch24),  # REL24: S + A - P
    23: Type(LOW24, reloc.relative, reloc.whole, reloc.branch24),  # LOCAL24PC: S + A - P
    26: Type(WORD32, reloc.relative, reloc.whole, reloc.anything),  # REL32: S + A - P
}

ABI = reloc.Abi(
    prefix="R_PPC_",
    names={number: name for name, number in ENUM_RELOC_TYPE_PPC.items() if name != "_default_"},
    types=TYPES,
    bits=32,
)


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    reloc.write(text, ABI.resolve(module, text, relocations))
