"""Kprobes of arm64: `brk`, and the copy of the instruction in its slot.

The copy is followed by a branch to the next instruction, so that nothing is single-stepped. An
instruction that depends on its address becomes other instructions:

    b, b.cond, cbz, tbz   a branch over a branch to the target
    bl                    x30 is set, then a branch to the target; blr likewise, with br
    adr, adrp             the address, by movz and movk
    ldr literal           the address in the register that is loaded, then a load from there

Some cannot be moved: exclusives, whose monitor a trap would clear, exceptions, and literals of
vector registers. Source: arch/arm64/kernel/probes/decode-insn.c and simulate-insn.c, 6.1, which
simulates these instructions; DDI 0487.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.facts import Breakpoint
from . import insn
from .insn import WORD

BRK = Breakpoint(insn.pack(0xD420_0080), interrupt=7, reported_at=0)  # brk #4
"""BRK64_OPCODE_KPROBES."""

_LR = 30
_BL, _B = 0x9400_0000, 0x1400_0000
_BLR, _BR = 0xD63F_0000, 0xD61F_0000
_MOVZ, _MOVK = 0xD280_0000, 0xF280_0000


@dataclass(frozen=True, slots=True)
class Arm64Probes:
    """See `core.arch.Probes`."""

    breakpoint: Breakpoint = BRK

    def length(self, code: bytes, start: int, address: int) -> int | None:
        """Return 4; None if the address is not aligned or not in `code`."""
        aligned = not address % WORD and address - start + WORD <= len(code)
        return WORD if aligned else None

    def out_of_line(self, text: bytes, address: int, slot: int) -> bytes | None:
        """Return code for `slot` that has the effect of `text` at `address` and jumps after it."""
        word = insn.word_at(text)
        words = _moved(word, address, slot)
        if words is None:
            return None
        back = _branch(slot + WORD * len(words), address + WORD)
        return None if back is None else insn.pack(*words, back)


def _branch(at: int, target: int) -> int | None:
    distance = target - at
    if not -insn.REACH <= distance < insn.REACH:
        return None
    return _B | distance >> 2 & 0x3FF_FFFF


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _address(register: int, value: int) -> list[int]:
    """Return instructions that load an address into a register."""
    parts = [(value >> 16 * part & 0xFFFF, part) for part in range(4)]
    first, *rest = parts
    words = [_MOVZ | first[0] << 5 | register]
    return words + [_MOVK | part << 21 | number << 5 | register for number, part in rest]


def _moved(word: int, address: int, slot: int) -> list[int] | None:
    """Return the instructions that stand for `word`, without the branch back."""
    if word & 0x7C00_0000 == _B:  # b, bl
        target = address + _signed(word & 0x3FF_FFFF, 26) * WORD
        words = _address(_LR, address + WORD) if word & _BL == _BL else []
        jump = _branch(slot + WORD * len(words), target)
        return None if jump is None else [*words, jump]
    if word & 0xFFFF_FC1F == _BLR:
        register = word >> 5 & 31
        if register == _LR:
            return None
        return [*_address(_LR, address + WORD), _BR | register << 5]
    if word & 0xFF00_0010 == 0x5400_0000 or word & 0x7E00_0000 == 0x3400_0000:
        return _conditional(word, 5, 19, address, slot)  # b.cond, cbz, cbnz
    if word & 0x7E00_0000 == 0x3600_0000:
        return _conditional(word, 5, 14, address, slot)  # tbz, tbnz
    if word & 0x1F00_0000 == 0x1000_0000:  # adr, adrp
        offset = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        page = word >> 31
        base = address & ~0xFFF if page else address
        value = (base + (offset << 12 if page else offset)) % (1 << 64)
        return _address(word & 31, value)
    if word & 0x3B00_0000 == 0x1800_0000:
        return _literal(word, address)
    if word & 0x3F00_0000 == 0x0800_0000 or word & 0xFF00_0000 == 0xD400_0000:
        return None  # exclusives; svc, hvc, brk
    return [word]


def _conditional(word: int, low: int, bits: int, address: int, slot: int) -> list[int] | None:
    """Return the branch, over a branch back, to a branch to its target."""
    mask = (1 << bits) - 1
    target = address + _signed(word >> low & mask, bits) * WORD
    back = _branch(slot + WORD, address + WORD)
    jump = _branch(slot + 2 * WORD, target)
    if back is None or jump is None:
        return None
    return [word & ~(mask << low) | 2 << low, back, jump]


def _literal(word: int, address: int) -> list[int] | None:
    """Return a load from the address of a literal; None for vector registers."""
    if word >> 26 & 1:
        return None
    register, kind = word & 31, word >> 30
    where = (address + _signed(word >> 5 & 0x7FFFF, 19) * WORD) % (1 << 64)
    if kind == 3 or register == 31:
        return [insn.NOP]  # prfm, or a result that is dropped
    load = {0: 0xB940_0000, 1: 0xF940_0000, 2: 0xB980_0000}[kind]  # ldr w, ldr x, ldrsw
    return [*_address(register, where), load | register << 5 | register]
