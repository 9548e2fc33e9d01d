"""The instruction of a block that has trapped: the emulator loses pc at a trap.

A block ends with a jump and its delay slot, at the end of a page, or with an instruction that
always traps: `break`, `syscall` or an undefined one. Other instructions trap on a condition, in
the middle of a block. The registers are still as at the trap, so the first instruction whose
condition they meet is assumed to be the one that trapped. This is wrong only if an earlier
instruction has changed its own operands so that they now meet its condition, which cannot be
detected.

Sources: as in insn.py; the traps' numbers are in oops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import insn
from .insn import WORD

LOAD, STORE, OVERFLOW, TRAP = 12, 13, 21, 22
"""Numbers of the conditional traps."""

_LOADS = {0x20: 1, 0x21: 2, 0x23: 4, 0x24: 1, 0x25: 2, 0x27: 4, 0x30: 4, 0x34: 8, 0x37: 8}
_STORES = {0x28: 1, 0x29: 2, 0x2B: 4, 0x38: 4, 0x3C: 8, 0x3F: 8}
"""Alignment in bytes of loads and stores, by opcode; lwl and the like need none."""

_ADD, _SUB, _DADD, _DSUB = 0x20, 0x22, 0x2C, 0x2E  # of SPECIAL
_ADDI, _DADDI = 8, 24

_CONDITIONS: Mapping[int, Callable[[int, int], bool]] = {
    0: lambda a, b: a >= b,
    1: lambda a, b: a % 2**64 >= b % 2**64,
    2: lambda a, b: a < b,
    3: lambda a, b: a % 2**64 < b % 2**64,
    4: lambda a, b: a == b,
    6: lambda a, b: a != b,
}
"""Conditions of tge, tgeu, tlt, tltu, teq, tne, by the low three bits of their field."""


def trapped_at(number: int, values: Sequence[int], address: int, words: Sequence[int]) -> int:
    """Return the address in `words`, a block at `address`, at which trap `number` was raised.

    `values` are the general registers, sign-extended.
    """
    for row, word in enumerate(words):
        if number in (LOAD, STORE) and _misaligned(number, values, word):
            return address + WORD * row
        if number == OVERFLOW and _overflows(values, word):
            return address + WORD * row
        if number == TRAP and _traps(values, word):
            return address + WORD * row
    if number == LOAD:
        for word in words[-2:]:  # the jump was executed, but its target has no code to fetch
            fields = insn.r_fields(word)
            if fields is not None and fields[0] in (insn.JR, insn.JALR):
                return values[fields[1]]
    return address + WORD * (len(words) - 1)


def _misaligned(number: int, values: Sequence[int], word: int) -> bool:
    opcode, base, _, offset = insn.i_fields(word)
    size = (_LOADS if number == LOAD else _STORES).get(opcode, 1)
    return (values[base] + offset) % size != 0


def _overflows(values: Sequence[int], word: int) -> bool:
    opcode, rs, rt, immediate = insn.i_fields(word)
    if opcode in (_ADDI, _DADDI):
        return not _fits(values[rs] + immediate, 64 if opcode == _DADDI else 32)
    if opcode != insn.SPECIAL:
        return False
    function = word & 0x3F
    bits = 64 if function in (_DADD, _DSUB) else 32
    if function in (_ADD, _DADD):
        return not _fits(values[rs] + values[rt], bits)
    return function in (_SUB, _DSUB) and not _fits(values[rs] - values[rt], bits)


def _traps(values: Sequence[int], word: int) -> bool:
    opcode, rs, rt, immediate = insn.i_fields(word)
    if opcode == insn.SPECIAL and word & 0x38 == 0x30:
        holds, other = _CONDITIONS.get(word & 7), values[rt]
    elif opcode == insn.REGIMM and rt & 0x18 == 8:
        holds, other = _CONDITIONS.get(rt & 7), immediate
    else:
        return False
    return holds is not None and holds(values[rs], other)


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)
