"""AArch64 relocations of modules: number, formula, field.

A type says which part of S + A or S + A - P, a field's bits take it, and whether
what is left over must be nothing. ADRP counts pages, so its formula is
Page(S + A) - Page(P). Branches to symbols of others are led to stubs before they
come here.

Source: ELF for the Arm 64-bit Architecture (AAELF64), 5.7 "Relocation"; the
fields are those of DDI 0487, C6.2.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_AARCH64
from numpy.typing import NDArray

from ...core.arch import Relocations
from ...core.errors import ModuleError, RelocationOverflow, UnknownRelocation
from ...core.field import outside, store

Values = NDArray[np.int64]
Truth = NDArray[np.bool_]

NONE = frozenset({0, 256})
"""Types that change nothing: the number of today, and one that was."""

CALL26, JUMP26 = 283, 282
"""The fields of `bl` and `b`."""

RELATIVE = 1027
"""An address in an image that is loaded anywhere: of the dynamic linker, not of modules."""


def absolute(value: Values, place: Values) -> Values:
    """S + A."""
    return value


def relative(value: Values, place: Values) -> Values:
    """S + A - P."""
    return value - place


def pages(value: Values, place: Values) -> Values:
    """Page(S + A) - Page(P), in bytes."""
    return (value & -0x1000) - (place & -0x1000)


@dataclass(frozen=True, slots=True)
class Field:
    """Where in a word of `width` bytes a relocation's bits are."""

    width: int
    mask: int
    spread: Callable[[Values], Values]
    """Moves the bits to their places; others may be anything."""


def _at(position: int) -> Callable[[Values], Values]:
    return lambda part: part << position


def _split(part: Values) -> Values:
    """The 21 bits of ADR and ADRP: immlo at 29, immhi at 5."""
    return (part & 3) << 29 | (part >> 2 & 0x7FFFF) << 5


WORD64 = Field(8, 2**64 - 1, _at(0))
WORD32 = Field(4, 2**32 - 1, _at(0))
WORD16 = Field(2, 2**16 - 1, _at(0))
IMM26 = Field(4, (1 << 26) - 1, _at(0))
IMM19 = Field(4, 0x7FFFF << 5, _at(5))
IMM14 = Field(4, 0x3FFF << 5, _at(5))
IMM12 = Field(4, 0xFFF << 10, _at(10))
IMM16 = Field(4, 0xFFFF << 5, _at(5))
IMM21 = Field(4, 3 << 29 | 0x7FFFF << 5, _split)


@dataclass(frozen=True, slots=True)
class Type:
    """A relocation type: the bits from `shift` on of which formula go where, if it fits."""

    field: Field
    formula: Callable[[Values, Values], Values]
    shift: int = 0
    fits: Callable[[Values], Truth] | None = None
    """None where every value does."""
    aligned: int = 1
    """What it must be a multiple of, in bytes."""


def _signed(bits: int) -> Callable[[Values], Truth]:
    """Values that sign-extending so many bits gives back."""
    return lambda values: (values >= -(1 << (bits - 1))) & (values < 1 << (bits - 1))


def _unsigned(bits: int) -> Callable[[Values], Truth]:
    """Values that have so many bits."""
    return lambda values: (values >= 0) & (values < 1 << bits)


def _either(bits: int) -> Callable[[Values], Truth]:
    """Values that sign- or zero-extending so many bits gives back."""
    return lambda values: (values >= -(1 << (bits - 1))) & (values < 1 << bits)


def _low12(scale: int) -> Type:
    """The place in a page, counted in units of an access of 1 << scale bytes."""
    field = Field(4, (0xFFF >> scale) << 10, _at(10))
    return Type(field, absolute, scale, aligned=1 << scale)


def _movw(group: int, checked: bool) -> Type:
    """16 bits of an address; `checked` says that those above are 0."""
    return Type(IMM16, absolute, 16 * group, _unsigned(16 * (group + 1)) if checked else None)


TYPES = {
    257: Type(WORD64, absolute),  # ABS64
    258: Type(WORD32, absolute, fits=_either(32)),  # ABS32
    259: Type(WORD16, absolute, fits=_either(16)),  # ABS16
    260: Type(WORD64, relative),  # PREL64
    261: Type(WORD32, relative, fits=_either(32)),  # PREL32
    262: Type(WORD16, relative, fits=_either(16)),  # PREL16
    263: _movw(0, True),  # MOVW_UABS_G0
    264: _movw(0, False),  # MOVW_UABS_G0_NC
    265: _movw(1, True),  # MOVW_UABS_G1
    266: _movw(1, False),  # MOVW_UABS_G1_NC
    267: _movw(2, True),  # MOVW_UABS_G2
    268: _movw(2, False),  # MOVW_UABS_G2_NC
    269: _movw(3, False),  # MOVW_UABS_G3
    273: Type(IMM19, relative, 2, _signed(21), 4),  # LD_PREL_LO19
    274: Type(IMM21, relative, 0, _signed(21)),  # ADR_PREL_LO21
    275: Type(IMM21, pages, 12, _signed(33)),  # ADR_PREL_PG_HI21
    276: Type(IMM21, pages, 12),  # ADR_PREL_PG_HI21_NC
    277: _low12(0),  # ADD_ABS_LO12_NC
    278: _low12(0),  # LDST8_ABS_LO12_NC
    279: Type(IMM14, relative, 2, _signed(16), 4),  # TSTBR14
    280: Type(IMM19, relative, 2, _signed(21), 4),  # CONDBR19
    JUMP26: Type(IMM26, relative, 2, _signed(28), 4),
    CALL26: Type(IMM26, relative, 2, _signed(28), 4),
    284: _low12(1),  # LDST16_ABS_LO12_NC
    285: _low12(2),  # LDST32_ABS_LO12_NC
    286: _low12(3),  # LDST64_ABS_LO12_NC
    299: _low12(4),  # LDST128_ABS_LO12_NC
}

_NAMES = {number: name for name, number in ENUM_RELOC_TYPE_AARCH64.items() if name != "_default_"}
_NAMES |= {0: "R_AARCH64_NONE", 299: "R_AARCH64_LDST128_ABS_LO12_NC"}  # pyelftools has not these


def name(kind: int) -> str:
    """The ABI's name of a relocation type, or its number where the ABI has none."""
    return _NAMES.get(kind, f"R_AARCH64_{kind}")


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    if not relocations.explicit:
        message = f"module {module}: REL relocations, and this ABI has RELA only"
        raise ModuleError(module, errno.ENOEXEC, message)
    kind, place = relocations.kind, relocations.place
    bad = ~np.isin(kind, [*TYPES, *NONE])
    if bad.any():
        first = int(np.argmax(bad))
        raise UnknownRelocation(module, name(int(kind[first])), int(place[first]))
    target = relocations.symbol.view(np.int64) + relocations.addend
    values = np.zeros(len(kind), np.int64)
    overflow = np.zeros(len(kind), np.bool_)
    chosen = [(number, np.flatnonzero(kind == number)) for number in TYPES]
    chosen = [(number, found) for number, found in chosen if len(found)]
    for number, found in chosen:
        type_ = TYPES[number]
        outside(module, name(number), text, relocations.offset[found], type_.field.width)
        values[found] = type_.formula(target[found], place[found].view(np.int64))
        overflow[found] = values[found] % type_.aligned != 0
        if type_.fits is not None:
            overflow[found] |= ~type_.fits(values[found])
    if overflow.any():
        first = int(np.argmax(overflow))
        value = int(values[first]) % 2**64
        raise RelocationOverflow(module, value, int(place[first]), name(int(kind[first])))
    for number, found in chosen:
        _write(text, TYPES[number], relocations.offset[found], values[found])


def _write(
    text: NDArray[np.uint8], type_: Type, offset: NDArray[np.uint64], values: Values
) -> None:
    """Write the field of each, and keep what else its word holds."""
    width, mask = type_.field.width, np.uint64(type_.field.mask)
    columns = offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
    old = np.ascontiguousarray(text[columns]).view(f"<u{width}")[:, 0].astype(np.uint64)
    new = type_.field.spread(values >> type_.shift).view(np.uint64) & mask
    store(text, offset, (old & ~mask) | new, width, "little")
