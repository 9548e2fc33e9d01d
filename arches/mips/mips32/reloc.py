"""o32 relocations of modules: number, formula, field; for both byte orders.

Addresses have 32 bits and wrap, so two halves, `lui` with the one and `addiu` or
a load with the other, make every address; only a jump and a branch can be too
far from their target.

Source: System V ABI, MIPS Processor Supplement, chapter 4, "Relocation".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....core.arch import Relocations
from .. import reloc

ABI = reloc.Abi(
    types={**reloc.TYPES, reloc.HI16: replace(reloc.TYPES[reloc.HI16], fits=reloc.anything)},
    bits=32,
)


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations, order: str) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    reloc.write(text, ABI.resolve(module, text, relocations, order), order)
