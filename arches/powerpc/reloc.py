"""Relocation of modules in both PowerPC ABIs: formulas, parts of values, fields.

Both ABIs use RELA: the addend is in the relocation. An instruction holds 16 or 24 bits of an
address, so types come in parts: `lo`, the low half, which the CPU sign-extends; `hi`, the high
half; `ha`, the high half adjusted for a negative low one. A field may be a part of its word: 24
bits between the opcode and the bits AA and LK of a branch, or 14 bits before the extended opcode
of DS-form. The other bits stay. A value that does not fit is an error and is never truncated
silently, except to a half named `lo`.

Sources: System V ABI, PowerPC Processor Supplement, and 64-bit PowerPC ELF ABI
Supplement 1.9, both in the section "Relocation Types".
"""

from __future__ import annotations

from ...core.elf.relocate import Field, Values, signed
from .insn import REACH

REL24 = 10
"""The field of `bl`, in both ABIs."""


def from_toc(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """Return S + A - .TOC."""
    return s + a - toc


def the_toc(s: Values, a: Values, p: Values, toc: Values) -> Values:
    """Return .TOC., whatever the symbol."""
    return toc


def hi(values: Values) -> Values:
    """Return the bits above the low half."""
    return values >> 16


def ha(values: Values) -> Values:
    """Return the bits above the low half, plus one if the low half is negative."""
    return (values + 0x8000) >> 16


BRANCH24 = signed(REACH.bit_length(), 4)
"""Range check for branches of I-form."""

LOW24 = Field(4, 0x03FF_FFFC)
HALF16 = Field(2, 0xFFFF)
HALF16DS = Field(2, 0xFFFC)
