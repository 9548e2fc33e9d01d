"""Relocation of a section's bytes, driven by a port's table of relocation types.

Each row of a port's table describes one type: its number, the formula from the ABI's manual,
the part of the value to store, the field that holds it, and the values that fit. In formulas S
is the symbol's value, A the addend, P the address of the field and .TOC. the object's TOC
pointer. A is in the relocation (RELA) or in the field (REL).

All relocations of a section are resolved before the first is written, so a refused module is
left unchanged. A value that does not fit is an error and is never truncated silently. Only
types with `lo`, or NC for "no check", in their name truncate.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..arch import Relocations
from ..errors import ModuleError, RelocationOverflow, UnknownRelocation
from .fields import outside, store

Values = NDArray[np.int64]
Truth = NDArray[np.bool_]
Rows = NDArray[np.intp]


# Formulas: functions of S, A, P and .TOC.


def absolute(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """Return S + A."""
    return s + a


def relative(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """Return S + A - P."""
    return s + a - p


# Parts of a value


def whole(values: Values) -> Values:
    """Return the values unchanged."""
    return values


def shifted(bits: int) -> Callable[[Values], Values]:
    """Return a function that takes the part of a value from bit number `bits` up."""
    return lambda values: values >> bits


# Range checks: functions of the value and the address P of its field.


def anything(values: Values, places: Values) -> Truth:
    """Accept every value: the field is as wide as an address, or the type truncates."""
    return np.ones(len(values), np.bool_)


def signed(bits: int, align: int = 1) -> Callable[[Values, Values], Truth]:
    """Return the check for multiples of `align` that fit a signed field of `bits` bits."""
    low, high = -(1 << bits - 1), 1 << bits - 1
    return lambda values, places: (values >= low) & (values < high) & (values % align == 0)


def unsigned(bits: int) -> Callable[[Values, Values], Truth]:
    """Return the check for values that fit an unsigned field of `bits` bits."""
    return lambda values, places: (values >= 0) & (values < 1 << bits)


def either(bits: int) -> Callable[[Values, Values], Truth]:
    """Return the check for values that fit a field of `bits` bits, signed or unsigned."""
    return lambda values, places: (values >= -(1 << bits - 1)) & (values < 1 << bits)


def multiple(align: int) -> Callable[[Values, Values], Truth]:
    """Return the check for multiples of `align`, for a field without the lowest bits."""

    def check(values: Values, places: Values) -> Truth:
        fits: Truth = values % align == 0
        return fits

    return check


def two_halves(values: Values, places: Values) -> Truth:
    """Accept values that are the sum of a signed high half and a signed low half of 16 bits."""
    return (values >= -(1 << 31) - 0x8000) & (values < (1 << 31) - 0x8000)


# Addends: functions of a field's word as an unsigned number.


def sign_extended(bits: int, shift: int = 0) -> Callable[[Values], Values]:
    """Return a function that sign-extends the low `bits` of a field and shifts them left."""

    def extend(fields: Values) -> Values:
        sign = 1 << (bits - 1)
        return (((fields & ((1 << bits) - 1)) ^ sign) - sign) << shift

    return extend


@dataclass(frozen=True, slots=True)
class Field:
    """The bits of a word that a relocation changes."""

    width: int
    """Size of the word in bytes."""
    mask: int
    spread: Callable[[Values], Values] = whole
    """Moves the stored part to its bits; bits outside the mask are ignored."""


WORD64 = Field(8, 2**64 - 1)
WORD32 = Field(4, 2**32 - 1)
WORD16 = Field(2, 2**16 - 1)


@dataclass(frozen=True, slots=True)
class RelocationType:
    """One row of a table: store `part` of the value of `formula` in `field`, if it fits."""

    field: Field
    formula: Callable[[Values, Values, Values, Values], Values]
    part: Callable[[Values], Values] = whole
    fits: Callable[[Values, Values], Truth] = anything
    addend: Callable[[Values], Values] = whole
    """Returns A from the word of a field, for files with REL."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Resolved relocations of one type: offsets in the section, and parts to store there."""

    field: Field
    offset: NDArray[np.uint64]
    parts: Values


@cache
def _names_of(enum: str) -> dict[int, str]:
    """Return names by number from a table of pyelftools."""
    # Imported only here: no relocation has a name before a module is loaded.
    from elftools.elf import enums

    numbers: Mapping[str, int] = getattr(enums, enum)
    return {number: name for name, number in numbers.items() if name != "_default_"}


@dataclass(frozen=True, slots=True)
class RelocationAbi:
    """The relocation types of an ABI."""

    prefix: str
    """Prefix of the types' names, such as `R_386_`."""
    enum: str
    """Name of the table in pyelftools' `elf.enums` with the types' numbers."""
    types: Mapping[int, RelocationType]
    bits: int
    """Width of an address in bits; values wrap around at it."""
    byteorder: str
    """`little` or `big`."""
    explicit: bool | None
    """Whether files use RELA rather than REL; None if they may use either."""
    nothing: frozenset[int] = frozenset({0})
    """Types that change nothing."""
    more: Mapping[int, str] = field(default_factory=dict)
    """Names that the table lacks."""

    @property
    def names(self) -> Mapping[int, str]:
        """The names of types by number."""
        return {**_names_of(self.enum), **self.more}

    def name(self, kind: int) -> str:
        """Return the ABI's name of a relocation type, or its number if the ABI has none."""
        return self.names.get(kind, f"{self.prefix}{kind}")

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply all `relocations` to one section's bytes, or none; see `Port.relocate`."""
        self.write(text, self.resolve(module, text, relocations))

    def resolve(
        self, module: str, text: NDArray[np.uint8], relocations: Relocations
    ) -> list[Stores]:
        """Return the stores of `relocations` without writing. Raises what `relocate` raises."""
        if self.explicit is not None and relocations.explicit != self.explicit:
            found, ours = ("REL", "RELA") if self.explicit else ("RELA", "REL")
            message = f"module {module}: {found} relocations, but this ABI has only {ours}"
            raise ModuleError(module, errno.ENOEXEC, message)
        kind, place = relocations.kind, relocations.place
        known = np.isin(kind, [*self.types, *self.nothing])
        if not known.all():
            first = int(np.argmin(known))
            raise UnknownRelocation(module, self.name(int(kind[first])), int(place[first]))
        found_rows = [(number, np.flatnonzero(kind == number)) for number in self.types]
        rows_of = {number: rows for number, rows in found_rows if len(rows)}
        for number, rows in rows_of.items():
            width = self.types[number].field.width
            outside(module, self.name(number), text, relocations.offset[rows], width)
        s, p, toc = (
            self._wrapped(each.view(np.int64))
            for each in (relocations.symbol, place, np.full(len(kind), relocations.toc, np.uint64))
        )
        a = self.addends(module, text, relocations, rows_of)
        values = np.zeros(len(kind), np.int64)
        fits = np.ones(len(kind), np.bool_)
        stores = []
        for number, rows in rows_of.items():
            type_ = self.types[number]
            values[rows] = self._wrapped(type_.formula(s[rows], a[rows], p[rows], toc[rows]))
            fits[rows] = type_.fits(values[rows], p[rows])
            stores.append(Stores(type_.field, relocations.offset[rows], type_.part(values[rows])))
        fits |= self.fit_together(kind, values)
        if not fits.all():
            first = int(np.argmin(fits))
            value = int(values[first]) % (1 << self.bits)
            raise RelocationOverflow(module, value, int(place[first]), self.name(int(kind[first])))
        return stores

    def write(self, text: NDArray[np.uint8], stores: list[Stores]) -> None:
        """Write the `stores` that `resolve` returned; other bits of each word stay."""
        for each in stores:
            width, mask = each.field.width, np.uint64(each.field.mask)
            old = self._words(text, each.offset, width)
            new = each.field.spread(each.parts).view(np.uint64) & mask
            store(text, each.offset, (old & ~mask) | new, width, self.byteorder)

    def addends(
        self,
        module: str,
        text: NDArray[np.uint8],
        relocations: Relocations,
        rows_of: Mapping[int, Rows],
    ) -> Values:
        """Return A of each relocation; `rows_of` has the rows of each type that occurs.

        An ABI whose addends take two fields overrides this. Raises `ModuleError`.
        """
        addends = relocations.addend.copy()
        if not relocations.explicit:
            for number, rows in rows_of.items():
                type_ = self.types[number]
                words = self._words(text, relocations.offset[rows], type_.field.width)
                addends[rows] = type_.addend(words.view(np.int64))
        return addends

    def fit_together(self, kind: NDArray[np.uint32], values: Values) -> Truth:
        """Return which values fit only together with another relocation, shape (n,)."""
        return np.zeros(len(kind), np.bool_)

    def _wrapped(self, values: Values) -> Values:
        """Return values modulo the size of an address, sign-extended."""
        return sign_extended(self.bits)(values) if self.bits < 64 else values

    def _words(
        self, text: NDArray[np.uint8], offset: NDArray[np.uint64], width: int
    ) -> NDArray[np.uint64]:
        """Return the words of `width` bytes at each offset, all inside `text`."""
        columns = offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
        order = "<" if self.byteorder == "little" else ">"
        words = np.ascontiguousarray(text[columns]).view(f"{order}u{width}")
        return words[:, 0].astype(np.uint64)
