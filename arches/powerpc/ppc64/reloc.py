"""ppc64 relocations of modules: number, formula, field; and the load of r2 after calls.

Code finds data through the TOC pointer, with a 16-bit offset (`-mcmodel=small`) or, after an
`addis`, a 32-bit one (`medium`, `large`). The descriptors in `.opd` are relocated like any data:
the entry by R_PPC64_ADDR64, the TOC pointer by R_PPC64_TOC.

A call of another object's function goes to a stub, which changes r2. So the word after the call
must restore r2: the compiler's nop there becomes `ld r2,40(r1)`. A call without such a nop is
refused.

Source: 64-bit PowerPC ELF ABI Supplement 1.9, section 4.5.1.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....core.arch import Relocations
from ....core.elf.fields import store
from ....core.elf.relocate import (
    WORD32,
    WORD64,
    RelocationAbi,
    RelocationType,
    absolute,
    either,
    multiple,
    relative,
    signed,
    two_halves,
    whole,
)
from ....core.errors import ModuleError
from ..insn import LD_R2, NOP, WORD
from ..reloc import BRANCH24, HALF16, HALF16DS, LOW24, REL24, from_toc, ha, hi, the_toc

TYPES = {
    1: RelocationType(WORD32, absolute, whole, either(32)),  # ADDR32: S + A
    REL24: RelocationType(LOW24, relative, whole, BRANCH24),  # REL24: S + A - P
    26: RelocationType(WORD32, relative, whole, signed(32)),  # REL32: S + A - P
    38: RelocationType(WORD64, absolute),  # ADDR64: S + A
    44: RelocationType(WORD64, relative),  # REL64: S + A - P
    47: RelocationType(HALF16, from_toc, whole, signed(16)),  # TOC16: S + A - .TOC.
    48: RelocationType(HALF16, from_toc),  # TOC16_LO: #lo of that
    49: RelocationType(HALF16, from_toc, hi, signed(32)),  # TOC16_HI: #hi of that
    50: RelocationType(HALF16, from_toc, ha, two_halves),  # TOC16_HA: #ha of that
    51: RelocationType(WORD64, the_toc),  # TOC: .TOC.
    63: RelocationType(HALF16DS, from_toc, whole, signed(16, 4)),  # TOC16_DS: S + A - .TOC.
    64: RelocationType(HALF16DS, from_toc, whole, multiple(4)),  # TOC16_LO_DS: #lo of that
}


@dataclass(frozen=True, slots=True)
class Elfv1(RelocationAbi):
    """The ABI's types, and the restore of r2 after a call of a stub."""

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply `relocations`, and restore r2 after calls of stubs; see `Port.relocate`."""
        stores = self.resolve(module, text, relocations)
        after = _after_stub_calls(module, text, relocations)
        self.write(text, stores)
        store(text, after, np.full(len(after), LD_R2, np.uint64), WORD, "big")


ABI = Elfv1(
    prefix="R_PPC64_",
    enum="ENUM_RELOC_TYPE_PPC64",
    types=TYPES,
    bits=64,
    byteorder="big",
    explicit=True,
)


def _after_stub_calls(
    module: str, text: NDArray[np.uint8], relocations: Relocations
) -> NDArray[np.uint64]:
    """Return the offsets of the nops after stub calls. Raises `ModuleError` for another word."""
    calls = np.flatnonzero(relocations.stub & (relocations.kind == REL24))
    after = relocations.offset[calls] + np.uint64(WORD)
    for row, offset in enumerate(after.tolist()):
        word = text[offset : offset + WORD].tobytes()
        if word != NOP.to_bytes(WORD, "big"):
            at = int(relocations.place[calls[row]]) + WORD
            raise ModuleError(
                module,
                errno.ENOEXEC,
                f"module {module}: Expected nop after call, got {word.hex() or 'nothing'}"
                f" at {at:x}",
            )
    return after
