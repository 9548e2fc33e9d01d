"""ppc32 stubs of modules: load the callee's address in two halves, and jump.

    lis   r12,ha
    addi  r12,r12,lo
    mtctr r12
    bctr

r12 and CTR are free at a call. r11 is not: a nested function of GNU C needs it. There is no TOC,
so only a call out of reach needs a stub.

Source: System V ABI, PowerPC Processor Supplement, chapter 3, "Registers".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....core.arch import Function, Relocations
from ....core.facts import Stub
from .. import insn
from ..reloc import BRANCH24, REL24

STUB = Stub(size=16, align=4, code=16)

_BEHIND = (insn.mtctr(12), insn.BCTR)
"""The code after the two words that load the address."""


@dataclass(frozen=True, slots=True)
class Stubs:
    """Makes stubs; see `core.arch.Stubs`."""

    facts: Stub = STUB

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        """Return which calls of the start of an external function do not reach it."""
        distance = (relocations.symbol - relocations.place).view(np.int64)
        calls: NDArray[np.bool_] = (relocations.kind == REL24) & (relocations.addend == 0)
        return calls & relocations.external & ~BRANCH24(distance, relocations.place.view(np.int64))

    def make(self, address: int, target: Function, toc: int) -> bytes:
        """Return the stub, which does not depend on `address`. Raises `ValueError`."""
        if not 0 <= target.code < 2**32:
            raise ValueError(f"{target.code:x} does not fit 32 bits")
        ha, lo = insn.halves(target.code)
        return insn.pack(insn.addis(12, 0, ha), insn.addi(12, 12, lo), *_BEHIND)

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        """Return the address that the code loads; None if it is not a stub."""
        if len(stub) < self.facts.size:
            return None
        ha, lo = (insn.d_fields(insn.word_at(stub, offset))[3] for offset in (0, insn.WORD))
        target = ((ha << 16) + lo) % 2**32
        return target if stub == self.make(address, Function(target), toc) else None
