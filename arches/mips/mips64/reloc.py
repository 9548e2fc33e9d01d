"""n64 relocations of modules: number, formula, field; and up to three types in one.

A relocation names three types, of which the second takes the value of the first
for its addend, and the third that of the second; and a second symbol. Its word
`r_info` is, big-endian, from the low end: a byte for each type, a byte for that
symbol. Only code that finds its data by distances from a pointer needs more than
one; here the others are R_MIPS_NONE.

Source: 64-bit ELF Object File Specification, section 2.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....core.arch import Relocations
from .. import reloc
from ..reloc import Type, absolute, anything, signed, whole

ABI = reloc.Abi(
    types={
        **reloc.TYPES,
        18: Type(8, 64, absolute, whole, anything, whole),  # 64: S + A
        28: Type(4, 16, absolute, reloc.higher, anything, signed(16)),  # HIGHER: #higher(S + A)
        reloc.HIGHEST: Type(  # HIGHEST: #highest(S + A)
            4, 16, absolute, reloc.highest, anything, signed(16)
        ),
    },
    bits=64,
)


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    reloc.write(text, ABI.resolve(module, text, relocations, "big"), "big")
