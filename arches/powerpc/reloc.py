"""How the PowerPC ABIs relocate modules: formulas, parts of values, fields within words.

S is the symbol's value, A the addend (both ABIs use RELA: it stands in the
relocation, not in the field), P the address of the field, .TOC. the object's
TOC pointer. An instruction holds 16 or 24 bits of an address, so types come in
parts: `lo`, the low half, which the CPU sign-extends; `hi`, the high half; `ha`,
the high half adjusted for a negative low one. A field may be a part of its
word: 24 bits between the opcode and the bits AA and LK of a branch, 14 bits
before the extended opcode of DS-form; the other bits stay. What does not fit is
an error, never a silent cut; a half named `lo` cuts by its name.

Sources: System V ABI, PowerPC Processor Supplement, and 64-bit PowerPC ELF ABI
Supplement 1.9, both in the section "Relocation Types".
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Relocations
from ...core.errors import ModuleError, RelocationOverflow, UnknownRelocation
from ...core.field import outside, store
from .insn import REACH

Values = NDArray[np.int64]
Truth = NDArray[np.bool_]

NONE = 0
"""The type that changes nothing, in both ABIs."""


# Formulas, of S, A, P and .TOC.


def absolute(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """S + A."""
    return s + a


def relative(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """S + A - P."""
    return s + a - p


def from_toc(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """S + A - .TOC."""
    return s + a - toc


def the_toc(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """.TOC., whatever the symbol."""
    return toc


# Parts of a value.


def whole(values: Values) -> Values:
    """All of it."""
    return values


def hi(values: Values) -> Values:
    """The bits above the low half."""
    return values >> 16


def ha(values: Values) -> Values:
    """The same, one more where the low half is negative."""
    return (values + 0x8000) >> 16


# What fits.


def anything(values: Values) -> Truth:
    """Every value: the field is as wide as an address, or is cut by its name."""
    return np.ones(len(values), np.bool_)


def signed16(values: Values) -> Truth:
    """Values that sign-extending 16 bits gives back."""
    return (values >= -0x8000) & (values < 0x8000)


def signed32(values: Values) -> Truth:
    """Values that sign-extending 32 bits gives back."""
    return (values >= -(1 << 31)) & (values < 1 << 31)


def either32(values: Values) -> Truth:
    """Values that sign- or zero-extending 32 bits gives back."""
    return (values >= -(1 << 31)) & (values < 1 << 32)


def words(values: Values) -> Truth:
    """Multiples of 4, whose low two bits the field has no place for."""
    fits: Truth = (values & 3) == 0
    return fits


def words16(values: Values) -> Truth:
    """Multiples of 4 in 16 bits."""
    return signed16(values) & words(values)


def branch24(values: Values) -> Truth:
    """Distances a branch of I-form reaches."""
    return (values >= -REACH) & (values < REACH) & words(values)


@dataclass(frozen=True, slots=True)
class Field:
    """The bits of a field that are the relocation's, and its width in bytes."""

    width: int
    mask: int


WORD64 = Field(8, 2**64 - 1)
WORD32 = Field(4, 2**32 - 1)
LOW24 = Field(4, 0x03FF_FFFC)
HALF16 = Field(2, 0xFFFF)
HALF16DS = Field(2, 0xFFFC)


@dataclass(frozen=True, slots=True)
class Type:
    """A relocation type: which part of which formula goes where, if the part fits."""

    field: Field
    formula: Callable[[Values, Values, Values, Values], Values]
    part: Callable[[Values], Values]
    fits: Callable[[Values], Truth]


@dataclass(frozen=True, slots=True)
class Stores:
    """Relocations of one type, ready to be written."""

    field: Field
    offset: NDArray[np.uint64]
    values: Values


@dataclass(frozen=True, slots=True)
class Abi:
    """The relocation types of an ABI by number."""

    prefix: str
    """Of its names, such as `R_PPC_`."""
    names: Mapping[int, str]
    types: Mapping[int, Type]
    bits: int
    """Of an address."""

    def name(self, kind: int) -> str:
        """The ABI's name of a relocation type, or its number where the ABI has none."""
        return self.names.get(kind, f"{self.prefix}{kind}")

    def resolve(
        self, module: str, text: NDArray[np.uint8], relocations: Relocations
    ) -> list[Stores]:
        """What `relocations` write into `text`; nothing is written. Raises as `Port.relocate`."""
        if not relocations.explicit:
            message = f"module {module}: REL relocations, and this ABI has RELA only"
            raise ModuleError(module, errno.ENOEXEC, message)
        kind, place = relocations.kind, relocations.place
        bad = (kind != NONE) & ~np.isin(kind, list(self.types))
        if bad.any():
            first = int(np.argmax(bad))
            raise UnknownRelocation(module, self.name(int(kind[first])), int(place[first]))
        values = np.zeros(len(kind), np.int64)
        overflow = np.zeros(len(kind), np.bool_)
        operands = (
            relocations.symbol.view(np.int64),
            relocations.addend,
            place.view(np.int64),
            np.full(len(kind), relocations.toc, np.uint64).view(np.int64),
        )
        stores = []
        for number, type_ in self.types.items():
            rows = np.flatnonzero(kind == number)
            if not len(rows):
                continue
            offset = relocations.offset[rows]
            outside(module, self.name(number), text, offset, type_.field.width)
            values[rows] = type_.formula(*(operand[rows] for operand in operands))
            part = type_.part(values[rows])
            overflow[rows] = ~type_.fits(part)
            stores.append(Stores(type_.field, offset, part))
        if overflow.any():
            first = int(np.argmax(overflow))
            value = int(values[first]) % (1 << self.bits)
            raise RelocationOverflow(module, value, int(place[first]), self.name(int(kind[first])))
        return stores


def write(text: NDArray[np.uint8], stores: list[Stores]) -> None:
    """Write what `Abi.resolve` found, and keep what else the fields' words hold."""
    for each in stores:
        width, mask = each.field.width, np.uint64(each.field.mask)
        columns = each.offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
        old = np.ascontiguousarray(text[columns]).view(f">u{width}")[:, 0].astype(np.uint64)
        new = (old & ~mask) | (each.values.view(np.uint64) & mask)
        store(text, each.offset, new, width, "big")
