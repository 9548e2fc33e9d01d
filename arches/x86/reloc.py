"""How the x86 ABIs relocate modules: formulas, fields, what fits.

S is the symbol's value, A the addend, P the address of the field. In 64 bits the
ABI uses RELA: A stands in the relocation; in 32 bits REL: it stands in the field.
A field is a whole number, unaligned; what does not fit is an error, as in the
kernel, never a silent cut.

Sources: System V ABI, AMD64 supplement and Intel386 supplement, each in section
4.4 "Relocation".
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

Values = NDArray[np.int64]

NONE = 0
"""The type that changes nothing, in both ABIs."""


def absolute(s: Values, a: Values, p: Values) -> Values:
    """S + A."""
    return s + a


def relative(s: Values, a: Values, p: Values) -> Values:
    """S + A - P."""
    return s + a - p


def anything(values: Values) -> NDArray[np.bool_]:
    """Every value: the field is as wide as an address, and addresses wrap."""
    return np.ones(len(values), np.bool_)


def signed32(values: Values) -> NDArray[np.bool_]:
    """Which values a CPU gets back by sign-extending 32 bits."""
    fits: NDArray[np.bool_] = values.astype(np.int32).astype(np.int64) == values
    return fits


def unsigned32(values: Values) -> NDArray[np.bool_]:
    """Which values a CPU gets back by zero-extending 32 bits."""
    fits: NDArray[np.bool_] = values.astype(np.uint32).astype(np.int64) == values
    return fits


@dataclass(frozen=True, slots=True)
class Type:
    """A relocation type: its formula, its field's width in bytes, what fits."""

    formula: Callable[[Values, Values, Values], Values]
    width: int
    fits: Callable[[Values], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Abi:
    """The relocation types of an ABI by number."""

    prefix: str
    """Of its names, such as `R_386_`."""
    names: Mapping[int, str]
    types: Mapping[int, Type]
    explicit: bool
    """Whether it has RELA, or else REL; never both."""

    def name(self, kind: int) -> str:
        """The ABI's name of a relocation type, or its number where the ABI has none."""
        return self.names.get(kind, f"{self.prefix}{kind}")

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
        if relocations.explicit != self.explicit:
            found, ours = ("REL", "RELA") if self.explicit else ("RELA", "REL")
            message = f"module {module}: {found} relocations, and this ABI has {ours} only"
            raise ModuleError(module, errno.ENOEXEC, message)
        kind, place = relocations.kind, relocations.place
        values = np.zeros(len(kind), np.int64)
        bad = (kind != NONE) & ~np.isin(kind, list(self.types))
        if bad.any():
            first = int(np.argmax(bad))
            raise UnknownRelocation(module, self.name(int(kind[first])), int(place[first]))
        s, a, p = relocations.symbol.view(np.int64), relocations.addend, place.view(np.int64)
        overflow = np.zeros(len(kind), np.bool_)
        rows: list[tuple[NDArray[np.intp], int]] = []
        for number, type_ in self.types.items():
            of_type = np.flatnonzero(kind == number)
            if not len(of_type):
                continue
            offset = relocations.offset[of_type]
            outside(module, self.name(number), text, offset, type_.width)
            addend = a[of_type] if self.explicit else _read(text, offset, type_.width)
            values[of_type] = type_.formula(s[of_type], addend, p[of_type])
            overflow[of_type] = ~type_.fits(values[of_type])
            rows.append((of_type, type_.width))
        if overflow.any():
            first = int(np.argmax(overflow))
            raise RelocationOverflow(
                module, int(values[first]) % 2**64, int(place[first]), self.name(int(kind[first]))
            )
        for of_type, width in rows:
            store(text, relocations.offset[of_type], values[of_type], width, "little")


def _read(text: NDArray[np.uint8], offset: NDArray[np.uint64], width: int) -> Values:
    """The signed numbers of `width` bytes at each offset, which lie in `text`."""
    columns = offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
    return np.ascontiguousarray(text[columns]).view(f"<i{width}")[:, 0].astype(np.int64)
