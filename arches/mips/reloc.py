"""Relocation of modules in the MIPS ABIs: formulas, parts of values, fields within words.

S is the symbol's value, A the addend, P the address of the field. An instruction holds 16 or 26
bits of an address, so types come in parts. `lo` is the low 16 bits, which the CPU sign-extends;
`hi`, `higher` and `highest` are the next three groups of 16 bits, plus one if the part below is
negative. The field is at the low end of its word; the other bits stay.

o32 uses REL: A is in the field. One field holds only half of the addend, so an R_MIPS_HI16 waits
for the next R_MIPS_LO16 in the table against the same symbol, and A comes from both fields:
(AHI << 16) + (short)ALO. Several R_MIPS_HI16 may wait for one R_MIPS_LO16. n64 uses RELA: A is
in the relocation.

A value that does not fit is an error and is never truncated silently. A jump must stay in its
region of 256 MB; overflows of R_MIPS_26 are the classic error of MIPS modules. With 64 bits, an
R_MIPS_HI16 and its R_MIPS_LO16 must hold the whole value, unless there is an R_MIPS_HIGHEST of
the same value.

Sources: System V ABI, MIPS Processor Supplement, chapter 4, "Relocation"; 64-bit
ELF Object File Specification, section 2.9.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Relocations
from ...core.elf.relocate import (
    WORD32,
    Field,
    RelocationAbi,
    RelocationType,
    Rows,
    Truth,
    Values,
    absolute,
    anything,
    either,
    relative,
    sign_extended,
    signed,
    two_halves,
    whole,
)
from ...core.errors import ModuleError
from .insn import REACH, REGION, WORD

HI16, LO16, HIGHEST = 5, 6, 29
"""Types with a meaning beyond their row of the table; both ABIs have the same numbers."""


# Parts of a value


def words(values: Values) -> Values:
    """Return values in words."""
    return values >> 2


def hi(values: Values) -> Values:
    """Return the bits from 16 up, plus one if the low half is negative."""
    return (values + 0x8000) >> 16


def higher(values: Values) -> Values:
    """Return the bits from 32 up, plus one if the bits below are negative."""
    return (values + 0x8000_8000) >> 32


def highest(values: Values) -> Values:
    """Return the bits from 48 up, plus one if the bits below are negative."""
    return (values + 0x8000_8000_8000) >> 48


# Range checks: functions of the value and the address P of its field.


def region(values: Values, places: Values) -> Truth:
    """Accept aligned addresses in the region of a jump's delay slot."""
    inside: Truth = ((values ^ (places + WORD)) & -REGION) == 0
    aligned: Truth = values % WORD == 0
    return inside & aligned


BRANCH16 = signed(REACH.bit_length(), WORD)
"""Range check for branches; distances count from the delay slot, which A allows for."""

LOW26 = Field(4, (1 << 26) - 1)
LOW16 = Field(4, 0xFFFF)

TYPES: Mapping[int, RelocationType] = {
    # 32: S + A
    2: RelocationType(WORD32, absolute, whole, either(32), sign_extended(32)),
    # 26: (S + A) >> 2
    4: RelocationType(LOW26, absolute, words, region, sign_extended(26, 2)),
    # HI16: #hi(S + A); a field has AHI, the addend is AHI << 16
    HI16: RelocationType(LOW16, absolute, hi, two_halves, sign_extended(16, 16)),
    # LO16: #lo(S + A)
    LO16: RelocationType(LOW16, absolute, whole, anything, sign_extended(16)),
    # PC16: (S + A - P) >> 2
    10: RelocationType(LOW16, relative, words, BRANCH16, sign_extended(16, 2)),
}
"""The types that both ABIs have."""


@dataclass(frozen=True, slots=True)
class MipsAbi(RelocationAbi):
    """A MIPS ABI, in which the value of one type can depend on another relocation."""

    def name(self, kind: int) -> str:
        """Return the name of a relocation type in the ABIs, or its number if it has none.

        On n64 it may be several names, R_MIPS_GPREL16/R_MIPS_SUB/R_MIPS_HI16, one for each byte.
        """
        types = [kind >> shift & 0xFF for shift in (0, 8, 16)]
        if kind >> 24 or not all(number in self.names for number in types):
            return f"{self.prefix}{kind}"
        return "/".join(self.names[number] for number in types if number) or self.names[0]

    def addends(
        self,
        module: str,
        text: NDArray[np.uint8],
        relocations: Relocations,
        rows_of: Mapping[int, Rows],
    ) -> Values:
        """Return A of each relocation; for a HI16 in REL, it includes the field of the LO16."""
        addends = RelocationAbi.addends(self, module, text, relocations, rows_of)
        if not relocations.explicit:
            high, low = _pairs(module, relocations)
            addends[high] += addends[low]
        return addends

    def fit_together(self, kind: NDArray[np.uint32], values: Values) -> Truth:
        """Return which HI16 belong to a value whose HIGHEST is stored too."""
        highs: Truth = kind == HI16
        return highs & np.isin(values, values[kind == HIGHEST])


def abi(types: Mapping[int, RelocationType], bits: int, byteorder: str) -> MipsAbi:
    """Return the ABI with these types, for addresses of `bits` bits, with REL or RELA."""
    return MipsAbi("R_MIPS_", "ENUM_RELOC_TYPE_MIPS", types, bits, byteorder, explicit=None)


def _pairs(module: str, relocations: Relocations) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of all HI16, and for each the next LO16 of the same symbol.

    Raises `ModuleError` for a HI16 without a LO16.
    """
    high, low = (np.flatnonzero(relocations.kind == kind) for kind in (HI16, LO16))
    after = np.searchsorted(low, high)
    partner = np.append(low, 0)[after]
    symbol = relocations.symbol
    lone = (after == len(low)) | (symbol[partner] != symbol[high])
    if lone.any():
        place = int(relocations.place[high[int(np.argmax(lone))]])
        message = f"module {module}: R_MIPS_HI16 at {place:x} without its R_MIPS_LO16"
        raise ModuleError(module, errno.ENOEXEC, message)
    return high, partner
