"""ppc64 stubs of modules: 28 bytes of code and a copy of the callee's descriptor.

A call of another object's function must do two things that `bl` cannot: reach any address, and
load the callee's TOC pointer into r2. The stub finds itself, and the descriptor it contains, by
its distance from the module's own TOC pointer, which r2 holds at the call. The stub does not
return: LR still holds the address after the `bl`, where `ld r2,40(r1)` restores the saved r2.

    addis r12,r2,ha     the address of this stub
    addi  r12,r12,lo
    std   r2,40(r1)     the caller's TOC pointer, saved in the caller's frame
    ld    r11,32(r12)   the callee's entry
    ld    r2,40(r12)    and its TOC pointer
    mtctr r11
    bctr
    .long 0             unused, aligns the doublewords
    .quad entry
    .quad toc

ha and lo are the halves of the stub's address minus the TOC pointer, at most +-2 GB. This is the
stub of the kernel's module loader in the years of ELFv1.

Source: 64-bit PowerPC ELF ABI Supplement 1.9, sections 3.2.2 (the frame and its
TOC save doubleword), 3.2.5 (descriptors) and 3.5.11 (calls).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....core.arch import Function, Relocations
from ....core.facts import Stub
from .. import insn
from ..reloc import REL24

STUB = Stub(size=48, align=16, code=28)

ENTRY, TOC = 32, 40
"""Offsets of the doublewords of the descriptor."""

TOC_SAVE = 40
"""Offset in the caller's frame at which its TOC pointer is saved."""

_BEHIND = (
    insn.std(2, TOC_SAVE, 1),
    insn.ld(11, ENTRY, 12),
    insn.ld(2, TOC, 12),
    insn.mtctr(11),
    insn.BCTR,
)
"""The code after the two words that add the distance."""


@dataclass(frozen=True, slots=True)
class Stubs:
    """Makes stubs; see `core.arch.Stubs`."""

    facts: Stub = STUB

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        """Return which calls have a target in another object, however near: r2 must change.

        Calls into the middle of a function are left out, because they have no descriptor.
        """
        calls: NDArray[np.bool_] = (relocations.kind == REL24) & (relocations.addend == 0)
        return calls & relocations.external

    def make(self, address: int, target: Function, toc: int) -> bytes:
        """Return the stub at `address`. Raises `ValueError` if a TOC pointer is missing or far."""
        if target.toc is None:
            raise ValueError("its target has no TOC pointer")
        unused = bytes(ENTRY - self.facts.code)
        descriptor = b"".join(word.to_bytes(8, "big") for word in (target.code, target.toc))
        return _code(address - toc) + unused + descriptor

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        """Return the entry in the stub's descriptor; None if the code is not a stub's."""
        try:
            code = _code(address - toc)
        except ValueError:
            return None
        if len(stub) < self.facts.size or not stub.startswith(code):
            return None
        return int.from_bytes(stub[ENTRY:TOC], "big")


def _code(distance: int) -> bytes:
    """Return the code of a stub at `distance` bytes from its module's TOC pointer."""
    ha, lo = insn.halves(distance)
    if (ha << 16) + lo != distance:
        raise ValueError(f"it is {distance:#x} bytes from the TOC pointer: the limit is +-2 GB")
    return insn.pack(insn.addis(12, 2, ha), insn.addi(12, 12, lo), *_BEHIND)
