"""A64 instructions that ftrace writes and meets, an encoder and a decoder for each format.

What this ISA does to ftrace. Every instruction is one aligned word of four
bytes, little-endian whatever the data is, and an aligned word is stored and
fetched whole. NOP, B and BL are among the instructions that may be changed to
each other while another CPU executes them: it sees the old one or the new one.
So a site in which one such word changes needs no CPU to wait. A call puts its
return address into x30, the link register, and a function that makes no call
never stores it. A call at the very start of a function would thus lose the
return address of that function: a word before the call keeps it in x9, which is
unused there. This word is written once, before the function runs.

                        Compiled        Disabled        Enabled
    arm64               nop             mov x9, x30     mov x9, x30
                        nop             nop             bl ftrace_caller
    arm64-mcount        bl _mcount      nop             bl ftrace_caller

The field of `bl` has 26 bits and counts words: +-128 MB. A module that is
farther away calls a veneer: three words that load any address within 4 GB into
x16, which the ABI reserves for them, and jump there.

A relative branch counts from its own address, ADRP from that of its 4 KB page.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), "Concurrent
modification and execution of instructions" and C6.2 (the instructions, in order of
their names); Procedure Call Standard for the Arm 64-bit Architecture, 6.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Addresses, Bytes

WORD = 4
"""Bytes of an instruction."""

NOP = 0xD503_201F  # nop, which is hint #0
SAVE_LR = 0xAA1E_03E9  # mov x9, x30: before a call that must not lose x30
BTI_C = 0xD503_245F  # bti c, which is hint #34: a target of calls only

REACH = 1 << 27
"""Reach of B and BL: less than this many bytes forward, at most as many back."""

PAGES = 1 << 20
"""Reach of ADRP: less than this many pages forward, at most as many back."""

PAGE_BITS = 12

FP, LR = 29, 30
"""Numbers of registers: frame pointer, link register."""

_LINK = 1 << 31
_B = 0x1400_0000  # b; bl with _LINK
_BRANCH_MASK = 0x7C00_0000
_IMM26 = (1 << 26) - 1
_ADRP, _ADRP_MASK = 0x9000_0000, 0x9F00_0000
_ADD, _ADD_MASK = 0x9100_0000, 0xFFC0_0000  # 64 bits, the immediate not shifted
_BR, _BLR, _REGISTER_MASK = 0xD61F_0000, 0xD63F_0000, 0xFFFF_FC1F
_MOV, _MOV_MASK = 0xAA00_03E0, 0xFFE0_FFE0  # orr of the zero register


def word_at(text: bytes, offset: int = 0) -> int:
    """Return the instruction at byte `offset` of `text`; raises `ValueError` beyond its end."""
    raw = text[offset : offset + WORD]
    if len(raw) < WORD:
        raise ValueError(f"no instruction at byte {offset} of {len(text)}")
    return int.from_bytes(raw, "little")


def words(text: bytes) -> list[int]:
    """Return the instructions of `text`, without a partial one at the end."""
    return [word_at(text, offset) for offset in range(0, len(text) - WORD + 1, WORD)]


def pack(*words: int) -> bytes:
    """Return the bytes of instructions in memory."""
    return b"".join(word.to_bytes(WORD, "little") for word in words)


# Unconditional branch (immediate): op, 00101, imm26 (counts words)


def branch(ip: Addresses, target: Addresses, link: bool) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `bl target`, or `b target` without `link`, at each `ip`.

    Returns the text, shape (n, 4), and which reach an aligned target from an
    aligned place; the bytes of one that does not are zeros, which is `udf #0`.
    """
    distance = (target - ip).view(np.int64)
    reach = (distance >= -REACH) & (distance < REACH) & (((ip | target) & np.uint64(3)) == 0)
    word = np.where(reach, (_LINK * link) | _B | (distance >> 2 & _IMM26), 0).astype("<u4")
    return np.ascontiguousarray(word).view(np.uint8).reshape(-1, WORD), reach


def bl(ip: Addresses, target: Addresses) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `bl target` at each `ip`; see `branch`."""
    return branch(ip, target, link=True)


def b(distance: int) -> int:
    """Encode `b .+distance`; raises `ValueError` if out of reach, or not a multiple of 4."""
    if distance % WORD or not -REACH <= distance < REACH:
        raise ValueError(f"a branch cannot go {distance:#x} bytes")
    return _B | distance >> 2 & _IMM26


def branch_target(ip: int, word: int) -> int | None:
    """Return where the B or BL `word` at `ip` goes, modulo 2**64; None for other words."""
    if word & _BRANCH_MASK != _B:
        return None
    return (ip + (_signed(word & _IMM26, 26) << 2)) % 2**64


def is_bl(word: int) -> bool:
    """Return whether `word` is BL."""
    return word & (_LINK | _BRANCH_MASK) == _LINK | _B


# Unconditional branch (register): 1101011, opc, 11111, 000000, Rn, 00000


def br(rn: int) -> int:
    """Encode `br xn`, a jump to the address in xn."""
    return _BR | _register(rn) << 5


def br_register(word: int) -> int | None:
    """Return the register of a BR; None for other words."""
    return word >> 5 & 31 if word & _REGISTER_MASK == _BR else None


def is_call(word: int) -> bool:
    """Return whether `word` is BL or BLR, which set x30."""
    return is_bl(word) or word & _REGISTER_MASK == _BLR


# PC-relative addressing: 1, immlo (2), 10000, immhi (19), Rd


def adrp(rd: int, pages: int) -> int:
    """Encode `adrp xd, .+pages`, this page's address plus `pages`; raises `ValueError`."""
    if not -PAGES <= pages < PAGES:
        raise ValueError(f"adrp cannot go {pages:#x} pages")
    return _ADRP | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | _register(rd)


def adrp_fields(word: int) -> tuple[int, int] | None:
    """Return Rd and the distance in pages of an ADRP; None for other words."""
    if word & _ADRP_MASK != _ADRP:
        return None
    return word & 31, _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)


# Add (immediate): 1, 00, 100010, sh, imm12, Rn, Rd


def add(rd: int, rn: int, imm: int) -> int:
    """Encode `add xd, xn, #imm`; raises `ValueError` beyond 12 bits."""
    if not 0 <= imm < 1 << 12:
        raise ValueError(f"immediate {imm:#x} does not fit 12 bits")
    return _ADD | imm << 10 | _register(rn) << 5 | _register(rd)


def add_fields(word: int) -> tuple[int, int, int] | None:
    """Return Rd, Rn and the immediate of an ADD as above; None for other words."""
    if word & _ADD_MASK != _ADD:
        return None
    return word & 31, word >> 5 & 31, word >> 10 & 0xFFF


# Move (register), which is ORR of XZR: 1, 01, 01010, 000, Rm, 000000, 11111, Rd


def mov(rd: int, rm: int) -> int:
    """Encode `mov xd, xm`."""
    return _MOV | _register(rm) << 16 | _register(rd)


def mov_fields(word: int) -> tuple[int, int] | None:
    """Return Rd and Rm of a MOV; None for other words."""
    return (word & 31, word >> 16 & 31) if word & _MOV_MASK == _MOV else None


def _register(number: int) -> int:
    if not 0 <= number < 31:  # 31 is sp or zero, by the instruction
        raise ValueError(f"no register x{number}")
    return number


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


def address_before(start: int, text: bytes, last: int) -> int | None:
    """Return the address that ADRP and ADD put into the register that `last` reads.

    `text` is code at `start`. `last` is an instruction with that register in its lowest five
    bits. None if the code has no such three instructions in a row.
    """
    code = words(text[: len(text) // WORD * WORD])
    for row in range(len(code) - 2):
        register = code[row + 2] & 0x1F
        page, low = adrp_fields(code[row]), add_fields(code[row + 1])
        if code[row + 2] & ~0x1F != last or page is None or low is None:
            continue
        if page[0] == register and low[:2] == (register, register):
            base = (start + row * WORD) >> PAGE_BITS << PAGE_BITS
            return (base + (page[1] << PAGE_BITS) + low[2]) % (1 << 64)
    return None
