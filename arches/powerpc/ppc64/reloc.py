"""ppc64 relocations of modules: number, formula, field; and the load of r2 behind calls.

Code reaches data through the TOC pointer, 16 bits away from it (`-mcmodel=small`)
or, by an `addis` before, 32 (`medium`, `large`). The descriptors in `.opd` are
relocated like any data: R_PPC64_ADDR64 the entry, R_PPC64_TOC the pointer.

A call of a function of another object goes to a stub, which changes r2, so the
word behind it has to bring it back: the nop the compiler left there becomes
`ld r2,40(r1)`. Where it left none, the call must not be made.

Source: 64-bit PowerPC ELF ABI Supplement 1.9, section 4.5.1.
"""

from __future__ import annotations

import errno

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_PPC64
from numpy.typing import NDArray

from ....core.arch import Relocations
from ....core.errors import ModuleError
from ....core.field import store
from .. import reloc
from ..insn import LD_R2, NOP, WORD
from ..reloc import HALF16, HALF16DS, LOW24, WORD32, WORD64, Type

REL24 = 10
"""The field of `bl`."""

TYPES = {
    1: Type(WORD32, reloc.absolute, reloc.whole, reloc.either32),  # ADDR32: S + A
    REL24: Type(LOW24, reloc.relative, reloc.whole, reloc.branch24),  # REL24: S + A - P
    26: Type(WORD32, reloc.relative, reloc.whole, reloc.signed32),  # REL32: S + A - P
    38: Type(WORD64, reloc.absolute, reloc.whole, reloc.anything),  # ADDR64: S + A
    44: Type(WORD64, reloc.relative, reloc.whole, reloc.anything),  # REL64: S + A - P
    47: Type(HALF16, reloc.from_toc, reloc.whole, reloc.signed16),  # TOC16: S + A - .TOC.
    48: Type(HALF16, reloc.from_toc, reloc.whole, reloc.anything),  # TOC16_LO: #lo of that
    49: Type(HALF16, reloc.from_toc, reloc.hi, reloc.signed16),  # TOC16_HI: #hi of that
    50: Type(HALF16, reloc.from_toc, reloc.ha, reloc.signed16),  # TOC16_HA: #ha of that
    51: Type(WORD64, reloc.the_toc, reloc.whole, reloc.anything),  # TOC: .TOC.
    63: Type(HALF16DS, reloc.from_toc, reloc.whole, reloc.words16),  # TOC16_DS: S + A - .TOC.
    64: Type(HALF16DS, reloc.from_toc, reloc.whole, reloc.words),  # TOC16_LO_DS: #lo of that
}

ABI = reloc.Abi(
    prefix="R_PPC64_",
    names={number: name for name, number in ENUM_RELOC_TYPE_PPC64.items() if name != "_default_"},
    types=TYPES,
    bits=64,
)


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    stores = ABI.resolve(module, text, relocations)
    behind = _behind_stub_calls(module, text, relocations)
    reloc.write(text, stores)
    store(text, behind, np.full(len(behind), LD_R2, np.uint64), WORD, "big")


def _behind_stub_calls(
    module: str, text: NDArray[np.uint8], relocations: Relocations
) -> NDArray[np.uint64]:
    """Offsets of the words that are to restore r2. Raises `ModuleError` where one is no nop."""
    calls = np.flatnonzero(relocations.stub & (relocations.kind == REL24))
    behind = relocations.offset[calls] + np.uint64(WORD)
    for row, offset in enumerate(behind.tolist()):
        word = text[offset : offset + WORD].tobytes()
        if word != NOP.to_bytes(WORD, "big"):
            at = int(relocations.place[calls[row]]) + WORD
            raise ModuleError(
                module,
                errno.ENOEXEC,
                f"module {module}: Expected nop after call, got {word.hex() or 'nothing'}"
                f" at {at:x}",
            )
    return behind
