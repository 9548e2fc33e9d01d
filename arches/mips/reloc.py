"""How the MIPS ABIs relocate modules: formulas, parts of values, fields within words.

S is the symbol's value, A the addend, P the address of the field. An instruction
holds 16 or 26 bits of an address, so types come in parts: `lo`, the low 16 bits,
which the CPU sign-extends, and `hi`, `higher`, `highest`, the next three times
16, each one more where what follows it is negative. The field is the low end of
its word; the other bits stay.

o32 has REL: A stands in the field. Half an addend is no addend, so R_MIPS_HI16
has to wait for the R_MIPS_LO16 that follows it in the table, against the same
symbol, and takes both fields: (AHI << 16) + (short)ALO. Several R_MIPS_HI16 may
wait for one R_MIPS_LO16. n64 has RELA: A stands in the relocation.

What does not fit is an error, never a silent cut. A jump must stay in its region
of 256 MB: there is the report this architecture's modules are known for. In 64
bits an R_MIPS_HI16 must make its value with R_MIPS_LO16 alone, unless an
R_MIPS_HIGHEST of the same value says that there is more to it.

Sources: System V ABI, MIPS Processor Supplement, chapter 4, "Relocation"; 64-bit
ELF Object File Specification, section 2.9.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_MIPS
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
    names_of,
    relative,
    sign_extended,
    signed,
    two_halves,
    whole,
)
from ...core.errors import ModuleError
from .insn import REACH, REGION, WORD

HI16, LO16, HIGHEST = 5, 6, 29
"""Types with a meaning beyond their row of the table, numbered alike in both ABIs."""

_NAMES = names_of(ENUM_RELOC_TYPE_MIPS)


# Parts of a value.


def words(values: Values) -> Values:
    """The value in words."""
    return values >> 2


def hi(values: Values) -> Values:
    """The bits from 16 on, one more if the low half is negative."""
    return (values + 0x8000) >> 16


def higher(values: Values) -> Values:
    """The bits from 32 on, one more if the bits below are negative."""
    return (values + 0x8000_8000) >> 32


def highest(values: Values) -> Values:
    """The bits from 48 on, one more if the bits below are negative."""
    return (values + 0x8000_8000_8000) >> 48


# What fits, by the value and the address P of its field.


def region(values: Values, places: Values) -> Truth:
    """Addresses of instructions in the region of a jump's delay slot."""
    inside: Truth = ((values ^ (places + WORD)) & -REGION) == 0
    aligned: Truth = values % WORD == 0
    return inside & aligned


BRANCH16 = signed(REACH.bit_length(), WORD)
"""Distances that a branch reaches; they count from its delay slot, which A makes up for."""

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
"""The types both ABIs have."""


@dataclass(frozen=True, slots=True)
class MipsAbi(RelocationAbi):
    """A MIPS ABI: some types count with others."""

    def name(self, kind: int) -> str:
        """Return the ABIs' name of a relocation type, or its number if they have none.

        On n64 it may be several, R_MIPS_GPREL16/R_MIPS_SUB/R_MIPS_HI16: a byte each.
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
        """Return A of each relocation; that of a HI16 in REL takes the LO16's field too."""
        addends = RelocationAbi.addends(self, module, text, relocations, rows_of)
        if not relocations.explicit:
            high, low = _pairs(module, relocations)
            addends[high] += addends[low]
        return addends

    def fit_together(self, kind: NDArray[np.uint32], values: Values) -> Truth:
        """Return which HI16 are one part of a value whose HIGHEST is stored too."""
        highs: Truth = kind == HI16
        return highs & np.isin(values, values[kind == HIGHEST])


def abi(types: Mapping[int, RelocationType], bits: int, byteorder: str) -> MipsAbi:
    """Return the ABI with these types, for addresses of `bits` bits; of either REL or RELA."""
    return MipsAbi("R_MIPS_", _NAMES, types, bits, byteorder, explicit=None)


def _pairs(module: str, relocations: Relocations) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of all HI16, and for each its LO16: the next, of the same symbol.

    Raises `ModuleError` for a HI16 without.
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
