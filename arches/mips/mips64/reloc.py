"""n64 relocations of modules: number, formula, field; and up to three types in one.

A relocation names three types and a second symbol. The second type takes the value of the first
as its addend, and the third that of the second. In the big-endian word `r_info`, the lowest
bytes are one for each type and one for the second symbol. Only position-independent code, which
finds its data relative to a pointer, needs more than one type; here the others are R_MIPS_NONE.

Source: 64-bit ELF Object File Specification, section 2.9.
"""

from __future__ import annotations

from ....core.elf.relocate import WORD64, RelocationType, absolute, anything, sign_extended
from ..reloc import HIGHEST, LOW16, TYPES, abi, higher, highest

_TYPES = {
    **TYPES,
    # 64: S + A
    18: RelocationType(WORD64, absolute),
    # HIGHER: #higher(S + A)
    28: RelocationType(LOW16, absolute, higher, anything, sign_extended(16)),
    # HIGHEST: #highest(S + A)
    HIGHEST: RelocationType(LOW16, absolute, highest, anything, sign_extended(16)),
}

ABI = abi(_TYPES, 64, "big")
