"""AArch64 relocations of modules: number, formula, field.

A type defines which part of S + A or S + A - P is stored, the bits of its field, and whether the
bits below must be 0. ADRP counts pages, so its formula is Page(S + A) - Page(P). Branches to
symbols of other objects have been redirected to stubs before they come here.

Source: ELF for the Arm 64-bit Architecture (AAELF64), 5.7 "Relocation"; the
fields are those of DDI 0487, C6.2.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.elf.relocate import (
    WORD16,
    WORD32,
    WORD64,
    Field,
    RelocationAbi,
    RelocationType,
    Values,
    absolute,
    anything,
    either,
    multiple,
    relative,
    shifted,
    signed,
    unsigned,
    whole,
)

CALL26, JUMP26 = 283, 282
"""The fields of `bl` and `b`."""

RELATIVE = 1027
"""Type of an address in an image that is loaded anywhere; modules do not have it."""


def pages(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """Return Page(S + A) - Page(P), in bytes."""
    return (s + a & -0x1000) - (p & -0x1000)


def _at(position: int) -> Callable[[Values], Values]:
    """Return a function that moves a part to the bits from `position` up."""
    return lambda part: part << position


def _split(part: Values) -> Values:
    """Return the 21 bits of ADR and ADRP in place: immlo at 29, immhi at 5."""
    return (part & 3) << 29 | (part >> 2 & 0x7FFFF) << 5


IMM26 = Field(4, (1 << 26) - 1)
IMM19 = Field(4, 0x7FFFF << 5, _at(5))
IMM14 = Field(4, 0x3FFF << 5, _at(5))
IMM16 = Field(4, 0xFFFF << 5, _at(5))
IMM21 = Field(4, 3 << 29 | 0x7FFFF << 5, _split)


def _low12(scale: int) -> RelocationType:
    """Return the type of an offset in a page, in units of 1 << scale bytes."""
    field = Field(4, (0xFFF >> scale) << 10, _at(10))
    return RelocationType(field, absolute, shifted(scale), multiple(1 << scale))


def _movw(group: int, checked: bool) -> RelocationType:
    """Return the type of 16 bits of an address; with `checked`, the bits above must be 0."""
    fits = unsigned(16 * (group + 1)) if checked else anything
    return RelocationType(IMM16, absolute, shifted(16 * group), fits)


TYPES = {
    257: RelocationType(WORD64, absolute),  # ABS64
    258: RelocationType(WORD32, absolute, fits=either(32)),  # ABS32
    259: RelocationType(WORD16, absolute, fits=either(16)),  # ABS16
    260: RelocationType(WORD64, relative),  # PREL64
    261: RelocationType(WORD32, relative, fits=either(32)),  # PREL32
    262: RelocationType(WORD16, relative, fits=either(16)),  # PREL16
    263: _movw(0, True),  # MOVW_UABS_G0
    264: _movw(0, False),  # MOVW_UABS_G0_NC
    265: _movw(1, True),  # MOVW_UABS_G1
    266: _movw(1, False),  # MOVW_UABS_G1_NC
    267: _movw(2, True),  # MOVW_UABS_G2
    268: _movw(2, False),  # MOVW_UABS_G2_NC
    269: _movw(3, False),  # MOVW_UABS_G3
    273: RelocationType(IMM19, relative, shifted(2), signed(21, 4)),  # LD_PREL_LO19
    274: RelocationType(IMM21, relative, whole, signed(21)),  # ADR_PREL_LO21
    275: RelocationType(IMM21, pages, shifted(12), signed(33)),  # ADR_PREL_PG_HI21
    276: RelocationType(IMM21, pages, shifted(12)),  # ADR_PREL_PG_HI21_NC
    277: _low12(0),  # ADD_ABS_LO12_NC
    278: _low12(0),  # LDST8_ABS_LO12_NC
    279: RelocationType(IMM14, relative, shifted(2), signed(16, 4)),  # TSTBR14
    280: RelocationType(IMM19, relative, shifted(2), signed(21, 4)),  # CONDBR19
    JUMP26: RelocationType(IMM26, relative, shifted(2), signed(28, 4)),
    CALL26: RelocationType(IMM26, relative, shifted(2), signed(28, 4)),
    284: _low12(1),  # LDST16_ABS_LO12_NC
    285: _low12(2),  # LDST32_ABS_LO12_NC
    286: _low12(3),  # LDST64_ABS_LO12_NC
    299: _low12(4),  # LDST128_ABS_LO12_NC
}

ABI = RelocationAbi(
    prefix="R_AARCH64_",
    enum="ENUM_RELOC_TYPE_AARCH64",
    types=TYPES,
    bits=64,
    byteorder="little",
    explicit=True,
    nothing=frozenset({0, 256}),  # the current number, and an earlier one
    more={0: "R_AARCH64_NONE", 299: "R_AARCH64_LDST128_ABS_LO12_NC"},
)
