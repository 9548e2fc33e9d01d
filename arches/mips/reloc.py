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
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_MIPS
from numpy.typing import NDArray

from ...core.arch import Relocations
from ...core.errors import ModuleError, RelocationOverflow, UnknownRelocation
from ...core.field import outside, store
from .insn import REACH, REGION, WORD

Values = NDArray[np.int64]
Truth = NDArray[np.bool_]

NONE, HI16, LO16, HIGHEST = 0, 5, 6, 29
"""Types with a meaning beyond their row of the table, numbered alike in both ABIs."""


_NAMES = {number: name for name, number in ENUM_RELOC_TYPE_MIPS.items() if name != "_default_"}


def name(kind: int) -> str:
    """The ABIs' name of a relocation type, or its number where they have none.

    On n64 it may be several, R_MIPS_GPREL16/R_MIPS_SUB/R_MIPS_HI16: a byte each.
    """
    types = [kind >> shift & 0xFF for shift in (0, 8, 16)]
    if kind >> 24 or not all(number in _NAMES for number in types):
        return f"R_MIPS_{kind}"
    return "/".join(_NAMES[number] for number in types if number) or _NAMES[NONE]


# Formulas, of S, A and P.


def absolute(s: Values, a: Values, p: Values) -> Values:
    """S + A."""
    return s + a


def relative(s: Values, a: Values, p: Values) -> Values:
    """S + A - P."""
    return s + a - p


# Parts of a value.


def whole(values: Values) -> Values:
    """All of it."""
    return values


def words(values: Values) -> Values:
    """How many words it is."""
    return values >> 2


def hi(values: Values) -> Values:
    """The bits from 16 on, one more where the low half is negative."""
    return (values + 0x8000) >> 16


def higher(values: Values) -> Values:
    """The bits from 32 on, one more where what is below is negative."""
    return (values + 0x8000_8000) >> 32


def highest(values: Values) -> Values:
    """The bits from 48 on, one more where what is below is negative."""
    return (values + 0x8000_8000_8000) >> 48


# What fits, of values and places.


def anything(values: Values, places: Values) -> Truth:
    """Every value: the field is as wide as an address, or is cut by its name."""
    return np.ones(len(values), np.bool_)


def either32(values: Values, places: Values) -> Truth:
    """Values that sign- or zero-extending 32 bits gives back."""
    return (values >= -(1 << 31)) & (values < 1 << 32)


def two_halves(values: Values, places: Values) -> Truth:
    """Values that a sign-extended high half and a signed low half make."""
    return (values >= -(1 << 31) - 0x8000) & (values < (1 << 31) - 0x8000)


def region(values: Values, places: Values) -> Truth:
    """Addresses of instructions in the region of a jump's delay slot."""
    inside: Truth = ((values ^ (places + WORD)) & -REGION) == 0
    aligned: Truth = values % WORD == 0
    return inside & aligned


def branch16(values: Values, places: Values) -> Truth:
    """Distances that a branch reaches; they count from its delay slot, which A makes up for."""
    aligned: Truth = values % WORD == 0
    return aligned & (values >= -REACH) & (values < REACH)


# Addends, of fields as unsigned numbers.


def signed(bits: int, shift: int = 0) -> Callable[[Values], Values]:
    """Sign-extends the low `bits` of a field, then shifts it up."""

    def extend(fields: Values) -> Values:
        sign = 1 << (bits - 1)
        return (((fields & ((1 << bits) - 1)) ^ sign) - sign) << shift

    return extend


@dataclass(frozen=True, slots=True)
class Type:
    """A relocation type: which part of which formula goes where, if the value fits."""

    width: int
    """Bytes of the word its field is in."""
    bits: int
    """Of the field, at the low end of the word."""
    formula: Callable[[Values, Values, Values], Values]
    part: Callable[[Values], Values]
    fits: Callable[[Values, Values], Truth]
    addend: Callable[[Values], Values]
    """A, where it stands in the field; of HI16 it is AHI << 16."""


TYPES: Mapping[int, Type] = {
    2: Type(4, 32, absolute, whole, either32, signed(32)),  # 32: S + A
    4: Type(4, 26, absolute, words, region, signed(26, 2)),  # 26: (S + A) >> 2
    HI16: Type(4, 16, absolute, hi, two_halves, signed(16, 16)),  # HI16: #hi(S + A)
    LO16: Type(4, 16, absolute, whole, anything, signed(16)),  # LO16: #lo(S + A)
    10: Type(4, 16, relative, words, branch16, signed(16, 2)),  # PC16: (S + A - P) >> 2
}
"""The types both ABIs have."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Relocations of one type, ready to be written."""

    type: Type
    offset: NDArray[np.uint64]
    values: Values


@dataclass(frozen=True, slots=True)
class Abi:
    """The relocation types of an ABI by number."""

    types: Mapping[int, Type]
    bits: int
    """Of an address; values wrap at it."""

    def resolve(
        self, module: str, text: NDArray[np.uint8], relocations: Relocations, order: str
    ) -> list[Stores]:
        """What `relocations` write into `text`; nothing is written. Raises as `Port.relocate`."""
        kind, place = relocations.kind, relocations.place
        bad = (kind != NONE) & ~np.isin(kind, list(self.types))
        if bad.any():
            first = int(np.argmax(bad))
            raise UnknownRelocation(module, name(int(kind[first])), int(place[first]))
        rows_of = {number: np.flatnonzero(kind == number) for number in self.types}
        for number, rows in rows_of.items():
            width = self.types[number].width
            outside(module, name(number), text, relocations.offset[rows], width)
        addend = relocations.addend.copy()
        if not relocations.explicit:
            for number, rows in rows_of.items():
                type_ = self.types[number]
                fields = _read(text, relocations.offset[rows], type_.width, order)
                addend[rows] = type_.addend(fields.view(np.int64))
            high, low = _pairs(module, relocations)
            addend[high] += addend[low]
        s, p = (self._wrapped(values.view(np.int64)) for values in (relocations.symbol, place))
        values = np.zeros(len(kind), np.int64)
        fits = np.ones(len(kind), np.bool_)
        stores = []
        for number, rows in rows_of.items():
            type_ = self.types[number]
            values[rows] = self._wrapped(type_.formula(s[rows], addend[rows], p[rows]))
            fits[rows] = type_.fits(values[rows], p[rows])
            stores.append(Stores(type_, relocations.offset[rows], type_.part(values[rows])))
        fits |= (kind == HI16) & np.isin(values, values[kind == HIGHEST])
        if not fits.all():
            first = int(np.argmin(fits))
            value = int(values[first]) % (1 << self.bits)
            raise RelocationOverflow(module, value, int(place[first]), name(int(kind[first])))
        return stores

    def _wrapped(self, values: Values) -> Values:
        """Values modulo the size of an address, sign-extended."""
        return signed(self.bits)(values) if self.bits < 64 else values


def write(text: NDArray[np.uint8], stores: list[Stores], order: str) -> None:
    """Write what `Abi.resolve` found, and keep what else the fields' words hold."""
    for each in stores:
        width, mask = each.type.width, np.uint64((1 << each.type.bits) - 1)
        old = _read(text, each.offset, width, order)
        store(text, each.offset, old & ~mask | each.values.view(np.uint64) & mask, width, order)


def _pairs(module: str, relocations: Relocations) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows of all HI16, and for each that of its LO16: the next, of the same symbol.

    Raises `ModuleError` for one that has none.
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


def _read(
    text: NDArray[np.uint8], offset: NDArray[np.uint64], width: int, order: str
) -> NDArray[np.uint64]:
    """The words of `width` bytes at each offset, which lie in `text`."""
    columns = offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
    words = np.ascontiguousarray(text[columns])
    return words.view(f"{'<' if order == 'little' else '>'}u{width}")[:, 0].astype(np.uint64)
