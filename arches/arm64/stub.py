"""Veneers of modules: load the callee's page, add the offset in it, and jump.

    adrp  x16, page
    add   x16, x16, #place
    br    x16

A veneer is the Arm manuals' word for a stub. The ABI lets veneers change x16 and x17 during any
call. ADRP reaches +-4 GB, which covers all places for modules. The kernel calls a module's table
of veneers its PLT, and keeps two outside of it for ftrace, with names of their own.

Source: Procedure Call Standard for the Arm 64-bit Architecture, 6.1.1 (IP0, IP1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Function, Relocations
from ...core.facts import Stub
from . import insn, reloc

STUB = Stub(
    size=12,
    align=4,
    code=12,
    names={
        "ftrace_caller": "ftrace_trampoline",
        "ftrace_regs_caller": "ftrace_regs_trampoline",
    },
)

IP0 = 16

_PLACE = (1 << insn.PAGE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Stubs:
    """Makes veneers; see `core.arch.Stubs`."""

    facts: Stub = STUB

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        """Return which calls and jumps to the start of an external function do not reach it."""
        distance = (relocations.symbol - relocations.place).view(np.int64)
        far = (distance < -insn.REACH) | (distance >= insn.REACH)
        branches: NDArray[np.bool_] = np.isin(relocations.kind, (reloc.CALL26, reloc.JUMP26))
        branches &= relocations.addend == 0
        return branches & relocations.external & far

    def make(self, address: int, target: Function, toc: int) -> bytes:
        """Return the stub at `address`. Raises `ValueError` if it is misaligned or too far."""
        if address % insn.WORD:
            raise ValueError(f"{address:x} is not aligned for an instruction")
        pages = (target.code >> insn.PAGE_BITS) - (address >> insn.PAGE_BITS)
        if not -insn.PAGES <= pages < insn.PAGES:
            raise ValueError(f"{target.code:x} is more than 4 GB away")
        place = target.code & _PLACE
        return insn.pack(insn.adrp(IP0, pages), insn.add(IP0, IP0, place), insn.br(IP0))

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        """Return the address that the code jumps to; None if it is not a stub."""
        if len(stub) < self.facts.size:
            return None
        first, second = (insn.word_at(stub, offset) for offset in (0, insn.WORD))
        page, place = insn.adrp_fields(first), insn.add_fields(second)
        if page is None or place is None:
            return None
        target = ((address >> insn.PAGE_BITS) + page[1] << insn.PAGE_BITS) + place[2]
        try:
            made = self.make(address, Function(target % 2**64), toc)
        except ValueError:
            return None
        return target % 2**64 if stub[: self.facts.size] == made else None
