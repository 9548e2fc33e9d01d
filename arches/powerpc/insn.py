"""PowerPC instructions that ftrace writes and meets, an encoder and a decoder for each.

What this ISA does to ftrace. Every instruction is one aligned word of four
bytes, and an aligned word is stored and fetched whole: no CPU can see half of
one, so there is no breakpoint to patch under, and a site of one word changes in
one store. A call puts its return address into the link register, LR, and
touches no memory. What is scarce is reach: the field of `bl` has 24 bits and
counts words, which makes +-32 MB. Modules lie farther from the kernel than
that. A call that does not reach goes to a stub, a few words inside the module,
which has room for a whole address, moves it to CTR and jumps by it.

64-bit code (ELFv1) finds its data through r2, the TOC pointer, and each object
has a TOC of its own: whoever calls into another object must change r2 on the
way and restore it afterwards. So the compiler leaves a nop after every call
that may leave the object. The stub saves r2 at 40(r1) and loads the callee's;
the module loader turns the nop into the load that restores the caller's.
That makes sites of two words, which are two stores: no CPU may run there
meanwhile. Nor should a CPU be in the tracer when the pair is removed, because
the load is gone when it returns, or between the two words when the pair is
written. Later kernels disable such a site by one word, a `b` over the load. With
two nops, as here, ftrace_caller restores r2 itself; the remaining danger is a CPU
that was stepped to a place between the nops. 32-bit code has no TOC, and its stub
is an address and a jump.

                    Compiled              Disabled     Enabled
    ppc64 kernel    bl ._mcount           nop          bl ftrace_caller
                    nop                   nop          nop
    ppc64 module    bl stub (._mcount)    nop          bl stub (ftrace_caller)
                    ld r2,40(r1)          nop          ld r2,40(r1)
    ppc32 kernel    bl _mcount            nop          bl ftrace_caller
    ppc32 module    bl stub (_mcount)     nop          bl stub (ftrace_caller)

A relative branch counts from its own address: target = ip + LI || 0b00.

Source: Power ISA 2.07, Book I, sections 1.6 (formats), 2.4 (branches) and 3.3
(fixed-point), Book II, section 1.4 (single-copy atomicity); 64-bit PowerPC ELF
ABI Supplement 1.9, section 3.2 (calls).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Addresses, Bytes

WORD = 4
"""Bytes of an instruction."""

NOP = 0x6000_0000  # nop, which is ori r0,r0,0
BCTR = 0x4E80_0420  # bctr: jump to the address in CTR
LD_R2 = 0xE841_0028  # ld r2,40(r1): the caller's TOC pointer, from where a stub put it

REACH = 1 << 25
"""Reach of a branch of I-form: less than this many bytes forward, at most as many back."""

ADDI, ADDIS, LD, STD = 14, 15, 58, 62
"""Primary opcodes of D-form and DS-form."""

MTSPR, CTR = 467, 9
"""Extended opcode of `mtspr`, and the number of one of its registers."""

_AA, _LK = 2, 1  # bits of every branch: the address is absolute; LR gets the next address
_LI = 0x03FF_FFFC
_BC, _B, _XL, _X = 16, 18, 19, 31  # primary opcodes
_XL_BRANCHES = frozenset({16, 528})  # extended opcodes: bclr, bcctr


def word_at(text: bytes, offset: int = 0) -> int:
    """Return the instruction at byte `offset` of `text`; raises `ValueError` beyond its end."""
    raw = text[offset : offset + WORD]
    if len(raw) < WORD:
        raise ValueError(f"no instruction at byte {offset} of {len(text)}")
    return int.from_bytes(raw, "big")


def pack(*words: int) -> bytes:
    """Return the bytes of instructions in memory."""
    return b"".join(word.to_bytes(WORD, "big") for word in words)


# I-form: opcode (6 bits), LI (24, counts words), AA, LK


def i_form(ip: Addresses, target: Addresses, link: bool) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `b target`, or `bl target` with `link`, at each `ip`.

    Returns the text, shape (n, 4), and which sites reach an aligned target from
    an aligned place; the bytes of a site that does not are zeros, which is no
    instruction.
    """
    distance = (target - ip).view(np.int64)
    reach = (distance >= -REACH) & (distance < REACH) & (((ip | target) & np.uint64(3)) == 0)
    word = np.where(reach, _B << 26 | (distance & _LI) | (_LK if link else 0), 0).astype(">u4")
    return np.ascontiguousarray(word).view(np.uint8).reshape(-1, WORD), reach


def bl(ip: Addresses, target: Addresses) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `bl target` at each `ip`; see `i_form`."""
    return i_form(ip, target, True)


def b(distance: int) -> int:
    """Encode `b .+distance`; raises `ValueError` if out of reach, or not a multiple of 4."""
    if distance % WORD or not -REACH <= distance < REACH:
        raise ValueError(f"a branch cannot go {distance:#x} bytes")
    return _B << 26 | distance & _LI


def branch_target(ip: int, word: int) -> int | None:
    """Return where the I-form branch `word` at `ip` goes, modulo 2**64; None for others."""
    if word >> 26 != _B:
        return None
    distance = _signed(word & _LI, 26)
    return (distance if word & _AA else ip + distance) % 2**64


def is_bl(word: int) -> bool:
    """Return whether `word` is a relative `bl`."""
    return word >> 26 == _B and word & (_AA | _LK) == _LK


def is_call(word: int) -> bool:
    """Return whether `word` is a branch that sets LR, of I-, B- or XL-form, conditional or not."""
    opcode, extended = word >> 26, word >> 1 & 0x3FF
    branches = opcode in (_BC, _B) or (opcode == _XL and extended in _XL_BRANCHES)
    return branches and bool(word & _LK)


# D-form: opcode (6), RT (5), RA (5), D (16, signed)


def d_form(opcode: int, rt: int, ra: int, d: int) -> int:
    """Encode; raises `ValueError` for an invalid register or displacement."""
    if not -0x8000 <= d < 0x8000:
        raise ValueError(f"displacement {d:#x} does not fit 16 bits")
    return opcode << 26 | _register(rt) << 21 | _register(ra) << 16 | d & 0xFFFF


def d_fields(word: int) -> tuple[int, int, int, int]:
    """Return opcode, RT, RA and D of a word of D-form."""
    return word >> 26, word >> 21 & 31, word >> 16 & 31, _signed(word & 0xFFFF, 16)


def addi(rt: int, ra: int, si: int) -> int:
    """Encode `addi rt,ra,si`: rt = ra + si; with ra 0 it is `li rt,si`."""
    return d_form(ADDI, rt, ra, si)


def addis(rt: int, ra: int, si: int) -> int:
    """Encode `addis rt,ra,si`: rt = ra + (si << 16); with ra 0 it is `lis rt,si`."""
    return d_form(ADDIS, rt, ra, si)


def halves(value: int) -> tuple[int, int]:
    """Return (ha, lo), signed, such that `addis ha` and `addi lo` add `value`, modulo 2**32.

    `addi` sign-extends, so where lo is negative ha is one more than the high half.
    """
    return _signed((value + 0x8000) >> 16 & 0xFFFF, 16), _signed(value & 0xFFFF, 16)


# DS-form: opcode (6), RT (5), RA (5), DS (14, signed, counts words), XO (2)


def ds_form(opcode: int, rt: int, ra: int, d: int, xo: int) -> int:
    """Encode, `d` in bytes; raises `ValueError` also if `d` is not a multiple of 4."""
    if d % 4:
        raise ValueError(f"displacement {d:#x} is not a multiple of 4")
    return d_form(opcode, rt, ra, d) | xo


def ds_fields(word: int) -> tuple[int, int, int, int, int]:
    """Return opcode, RT, RA, D in bytes, and XO of a word of DS-form."""
    return *d_fields(word & ~3), word & 3


def ld(rt: int, d: int, ra: int) -> int:
    """Encode `ld rt,d(ra)`: rt = the doubleword at ra + d."""
    return ds_form(LD, rt, ra, d, 0)


def std(rs: int, d: int, ra: int) -> int:
    """Encode `std rs,d(ra)`: rs to the doubleword at ra + d."""
    return ds_form(STD, rs, ra, d, 0)


# XFX-form: opcode (6, always 31 here), RS (5), spr (10, its halves swapped), XO (10), 0


def xfx_form(xo: int, spr: int, rs: int) -> int:
    """Encode; raises `ValueError` for an invalid register."""
    if not 0 <= spr < 1024:
        raise ValueError(f"no special purpose register {spr}")
    return _X << 26 | _register(rs) << 21 | (spr & 31) << 16 | spr >> 5 << 11 | xo << 1


def xfx_fields(word: int) -> tuple[int, int, int] | None:
    """Return XO, spr and RS of a word of XFX-form; None for other opcodes."""
    if word >> 26 != _X or word & 1:
        return None
    return word >> 1 & 0x3FF, word >> 16 & 31 | (word >> 11 & 31) << 5, word >> 21 & 31


def mtctr(rs: int) -> int:
    """Encode `mtctr rs`: CTR = rs."""
    return xfx_form(MTSPR, CTR, rs)


def _register(number: int) -> int:
    if not 0 <= number < 32:
        raise ValueError(f"no register r{number}")
    return number


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)
