"""x86-64 relocations of modules: number, formula, field.

S is the symbol's value, A the addend (the ABI uses RELA: it stands in the
relocation, not in the field), P the address of the field. GCC's kernel flags
(`-mcmodel=kernel -fno-pic`) promise that code and data lie in the top 2 GB, so
most fields are 32 bits wide and sign-extended by the CPU; what does not fit is
an error, as in the kernel, never a silent cut.

Source: System V ABI, AMD64 supplement, section 4.4 "Relocation".
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from elftools.elf.enums import ENUM_RELOC_TYPE_x64
from numpy.typing import NDArray

from ....core.arch import Relocations
from ....core.errors import ModuleError, RelocationOverflow, UnknownRelocation
from ....core.field import outside, store

Values = NDArray[np.int64]


def absolute(s: Values, a: Values, p: Values) -> Values:
    """S + A."""
    return s + a


def relative(s: Values, a: Values, p: Values) -> Values:
    """S + A - P."""
    return s + a - p


def anything(values: Values) -> NDArray[np.bool_]:
    """A 64-bit field takes every value."""
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


R_X86_64_NONE = 0

TYPES = {
    1: Type(absolute, 8, anything),  # R_X86_64_64     S + A
    2: Type(relative, 4, signed32),  # R_X86_64_PC32   S + A - P
    # No PLT in a kernel: the procedure is reached directly.
    4: Type(relative, 4, signed32),  # R_X86_64_PLT32  L + A - P with L = S
    10: Type(absolute, 4, unsigned32),  # R_X86_64_32   S + A, zero-extended
    11: Type(absolute, 4, signed32),  # R_X86_64_32S    S + A, sign-extended
    24: Type(relative, 8, anything),  # R_X86_64_PC64   S + A - P
}

_NAMES = {number: name for name, number in ENUM_RELOC_TYPE_x64.items() if name != "_default_"}
_NAMES[41] = "R_X86_64_GOTPCRELX"  # pyelftools has its sibling 42 only


def name(kind: int) -> str:
    """The ABI's name of a relocation type, or its number where the ABI has none."""
    return _NAMES.get(kind, f"R_X86_64_{kind}")


def relocate(module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
    """Apply `relocations` to one section's bytes, all or none; see `Port.relocate`."""
    if not relocations.explicit:
        raise ModuleError(
            module, errno.ENOEXEC, f"module {module}: REL relocations, and this ABI has RELA only"
        )
    kind, place = relocations.kind, relocations.place
    values = np.zeros(len(kind), np.int64)
    bad = (kind != R_X86_64_NONE) & ~np.isin(kind, list(TYPES))
    if bad.any():
        first = int(np.argmax(bad))
        raise UnknownRelocation(module, name(int(kind[first])), int(place[first]))
    s, a, p = relocations.symbol.view(np.int64), relocations.addend, place.view(np.int64)
    overflow = np.zeros(len(kind), np.bool_)
    rows: list[tuple[NDArray[np.intp], int]] = []
    for number, type_ in TYPES.items():
        of_type = np.flatnonzero(kind == number)
        if not len(of_type):
            continue
        outside(module, name(number), text, relocations.offset[of_type], type_.width)
        values[of_type] = type_.formula(s[of_type], a[of_type], p[of_type])
        overflow[of_type] = ~type_.fits(values[of_type])
        rows.append((of_type, type_.width))
    if overflow.any():
        first = int(np.argmax(overflow))
        raise RelocationOverflow(
            module, int(values[first]) % 2**64, int(place[first]), name(int(kind[first]))
        )
    for of_type, width in rows:
        store(text, relocations.offset[of_type], values[of_type], width, "little")
