"""MIPS instructions that ftrace writes and meets, an encoder and a decoder for each format.

What this ISA does to ftrace. Every instruction is one aligned word of four
bytes, and an aligned word is stored and fetched whole. Three things make a call
more than one word.

A jump has 26 bits, which count words and are not a distance: they replace the low
28 bits of the address after the jump. So `jal` goes anywhere within its own
256 MB region and nowhere else, however near: a module at 0xc0000000 cannot reach
the kernel at 0x80000000. There is no long call relative to pc either. A call that
reaches everything loads the address, in two halves, and calls by register.

A jump takes effect one instruction late. The word after it, in its delay slot,
is executed first, and a call returns to the word after that: ra = ip + 8.

A call puts its return address into ra, which still holds that of the traced
function. So the compiler first copies ra to register at, and mcount restores ra
from there. On o32 the delay slot takes 8 bytes of stack, which mcount gives back.

So a near site of o32 is two words that change together: without the `jal`, sp
would drift by 8 at each call. These are two stores, during which no CPU may run.
No CPU stops between them, because a jump and its delay slot are executed as one.
Two nops are not: a CPU stopped after the first one would find a lone `addiu`
there. So the `jal` becomes a branch too, to its own return address, with a nop in
its delay slot. On n64 the site takes no stack and has a nop in the slot anyway,
so the `jal` simply becomes a nop.

Linux does it differently (`--nop linux`, for o32). It turns both words into nops at
boot and never writes the `addiu` again: an enabled site is `jal ftrace_caller + 8` and
a nop, and ftrace_caller + 8 does not give back stack. From then on one word changes.
At a far site it writes two words, the second as a nop and back, so that a task stopped
after the first one can lose half of the address.

A far site is five words, or nine with a full address of 64 bits. With
-mmcount-ra-address, as Linux builds 32-bit modules, a sixth word before the call puts
the address of the saved ra into t4, or zero. Without optimization the addiu is before
the call, with a nop in the delay slot: one more word.

A task may have been preempted between any two words, and continues with the next,
whatever that is by then. So only the first changes, into a branch over the rest. Its
delay slot still adds to v1, which is unused. The other words still load the address
of mcount, so mcount itself is patched, once, to jump to ftrace_caller.

                        Compiled                    Disabled    Enabled
    o32 kernel          jal   _mcount               b     1f    jal   ftrace_caller
                        addiu sp,sp,-8              nop         addiu sp,sp,-8
                     1:
    o32 module,         jal   _mcount_trampoline    b     1f    jal   ftrace_caller_trampoline
      linked stubs      addiu sp,sp,-8              nop         addiu sp,sp,-8
                     1:
    o32 module,         lui   v1,%hi(_mcount)       b     1f    lui   v1,%hi(_mcount)
      long calls        addiu v1,v1,%lo(_mcount)
                        move  at,ra
                        jalr  v1
                        addiu sp,sp,-8
                     1:
    n64 kernel          jal   _mcount               nop         jal   ftrace_caller
                        nop
    n64 module,         jal   _mcount_trampoline    nop         jal   ftrace_caller_trampoline
      linked stubs      nop
    n64 module,         lui   v1,%hi(_mcount)       b     1f    lui   v1,%hi(_mcount)
      long calls        daddiu v1,v1,%lo(_mcount)
                        move  at,ra
                        jalr  v1
                        nop
                     1:
    n64 module,         lui   v1,%highest(_mcount)  b     1f    lui   v1,%highest(_mcount)
      64-bit symbols    lui   at,%hi(_mcount)
                        daddiu v1,v1,%higher(_mcount)
                        daddiu at,at,%lo(_mcount)
                        dsll32 v1,v1,0
                        daddu v1,v1,at
                        move  at,ra
                        jalr  v1
                        nop
                     1:

A linked stub (stub.S) is code of the module itself: it loads the address of mcount, or
of ftrace_caller, and jumps there. (In a 64-bit kernel the addresses of
_mcount and ftrace_caller are sign-extended from 32 bits, so two halves suffice.)

Sources: MIPS Architecture For Programmers, Volume I-A, "Jump and Branch
Instructions", Volume II-A, the pages of the instructions; System V ABI, MIPS
Processor Supplement, chapter 3.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Addresses, Bytes

Words = NDArray[np.uint32]
"""Instructions."""

WORD = 4
"""Bytes of an instruction."""

CALL = 2 * WORD
"""Bytes of a call, with its delay slot."""

ZERO, AT, V1, T4, GP, SP, RA = 0, 1, 3, 12, 28, 29, 31
"""Numbers of registers."""

DSLL32_V1 = 0x0003_183C
"""dsll32 v1, v1, 0: the low half of v1 becomes its high half."""

REGION = 1 << 28
"""Bytes of the aligned region that a jump stays in."""

REACH = 1 << 17
"""Reach of a branch, from its delay slot: less than this many bytes forward, as many back."""

SPECIAL, REGIMM, J, JAL, BEQ, ADDIU, LUI, DADDIU, JALX = 0, 1, 2, 3, 4, 9, 15, 25, 29
"""Opcodes; the first two name the instruction in another field."""

JR, JALR, ADDU, OR, DADDU = 8, 9, 33, 37, 45
"""Function field of SPECIAL."""

_COP1, _COP2, _BC = 17, 18, 8  # branches of coprocessors: BC in the rs field
_BRANCHES = frozenset({J, JAL, JALX, *range(BEQ, BEQ + 4), *range(20, 24)})
_REGIMM_BRANCHES = frozenset({0, 1, 2, 3, 16, 17, 18, 19})  # the rt field: bltz … bgezall
_REGIMM_CALLS = frozenset({16, 17, 18, 19})  # bltzal, bgezal, and the likely forms
_BGEZAL = 17


def word_at(text: bytes, order: str, offset: int = 0) -> int:
    """Return the instruction at byte `offset` of `text`; raises `ValueError` beyond its end.

    `order` is the byte order, `big` or `little`.
    """
    raw = text[offset : offset + WORD]
    if len(raw) < WORD:
        raise ValueError(f"no instruction at byte {offset} of {len(text)}")
    return int.from_bytes(raw, "little" if order == "little" else "big")


def pack(order: str, *words: int) -> bytes:
    """Return the bytes of instructions in memory."""
    return b"".join(word.to_bytes(WORD, "little" if order == "little" else "big") for word in words)


def words_of(text: Bytes, order: str) -> Words:
    """Return texts of whole instructions, shape (n, 4 k), as words, shape (n, k)."""
    typed = np.ascontiguousarray(text).view("<u4" if order == "little" else ">u4")
    return typed.astype(np.uint32)


def bytes_of(words: Words, order: str) -> Bytes:
    """Return the bytes in memory, shape (n, 4 k), of words, shape (n, k)."""
    typed = words.astype("<u4" if order == "little" else ">u4")
    return np.ascontiguousarray(typed).view(np.uint8)


def _register(number: int) -> int:
    if not 0 <= number < 32:
        raise ValueError(f"no register ${number}")
    return number


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


# J-type: opcode (6 bits), instr_index (26, counts words)


def j_type(opcode: int, ip: Addresses, target: Addresses) -> tuple[Words, NDArray[np.bool_]]:
    """Encode a jump to `target` at each `ip`.

    Returns the words, shape (n,), and which sites reach an aligned target from
    an aligned place: one in the region of the delay slot. The word of a site
    that does not is wrong.
    """
    slot = ip + np.uint64(WORD)
    reach = (slot ^ target) < np.uint64(REGION)
    reach &= ((ip | target) & np.uint64(WORD - 1)) == 0
    index = (target >> np.uint64(2)) & np.uint64(REGION // WORD - 1)
    return (index | np.uint64(opcode << 26)).astype(np.uint32), reach


def jal(ip: Addresses, target: Addresses) -> tuple[Words, NDArray[np.bool_]]:
    """Encode `jal target` at each `ip`; see `j_type`."""
    return j_type(JAL, ip, target)


def jump_target(ip: int, word: int) -> int | None:
    """Return where the `j` or `jal` `word` at `ip` goes; None if it is neither."""
    if word >> 26 not in (J, JAL):
        return None
    return (ip + WORD) // REGION * REGION | word << 2 & REGION - 1


# I-type: opcode (6), rs (5), rt (5), immediate (16)


def i_type(opcode: int, rs: int, rt: int, immediate: int) -> int:
    """Encode; raises `ValueError` for an invalid register or immediate, signed or not."""
    if not -0x8000 <= immediate < 0x10000:
        raise ValueError(f"immediate {immediate:#x} does not fit 16 bits")
    return opcode << 26 | _register(rs) << 21 | _register(rt) << 16 | immediate & 0xFFFF


def i_fields(word: int) -> tuple[int, int, int, int]:
    """Return opcode, rs, rt and the immediate, signed, of a word of I-type."""
    return word >> 26, word >> 21 & 31, word >> 16 & 31, _signed(word & 0xFFFF, 16)


def lui(rt: int, immediate: int) -> int:
    """Encode `lui rt,immediate`: rt = immediate << 16, sign-extended from 32 bits."""
    return i_type(LUI, ZERO, rt, immediate)


def addiu(rt: int, rs: int, immediate: int) -> int:
    """Encode `addiu rt,rs,immediate`: rt = rs + immediate, which is signed."""
    return i_type(ADDIU, rs, rt, immediate)


def daddiu(rt: int, rs: int, immediate: int) -> int:
    """Encode `daddiu rt,rs,immediate`: the same in 64 bits."""
    return i_type(DADDIU, rs, rt, immediate)


def b(distance: int) -> int:
    """Encode `b .+distance`, which is beq zero,zero; raises `ValueError` out of reach."""
    if distance % WORD or not -REACH <= distance - WORD < REACH:
        raise ValueError(f"a branch cannot go {distance:#x} bytes")
    return i_type(BEQ, ZERO, ZERO, (distance - WORD) // WORD)


def branch_target(ip: int, word: int) -> int | None:
    """Return where `b` or `bal` at `ip` goes; None if `word` is neither."""
    opcode, rs, rt, immediate = i_fields(word)
    if (opcode, rs, rt) not in ((BEQ, ZERO, ZERO), (REGIMM, ZERO, _BGEZAL)):
        return None
    return ip + WORD + WORD * immediate


def halves(value: int) -> tuple[int, int]:
    """Return (hi, lo) such that `lui hi` and `addiu lo` make `value`, modulo 2**32.

    `addiu` sign-extends, so where lo is negative hi is one more than the high half.
    """
    return (value + 0x8000) >> 16 & 0xFFFF, _signed(value & 0xFFFF, 16)


# R-type: opcode (6, here always SPECIAL), rs (5), rt (5), rd (5), sa (5), function (6)


def r_type(function: int, rs: int, rt: int, rd: int, sa: int = 0) -> int:
    """Encode; raises `ValueError` for an invalid register."""
    registers = _register(rs) << 21 | _register(rt) << 16 | _register(rd) << 11
    return registers | _register(sa) << 6 | function


def r_fields(word: int) -> tuple[int, int, int, int, int] | None:
    """Return function, rs, rt, rd and sa of a word of R-type; None for other opcodes."""
    if word >> 26 != SPECIAL:
        return None
    return word & 0x3F, word >> 21 & 31, word >> 16 & 31, word >> 11 & 31, word >> 6 & 31


def jr(rs: int) -> int:
    """Encode `jr rs`, a jump to the address in rs."""
    return r_type(JR, rs, ZERO, ZERO)


def jalr(rs: int) -> int:
    """Encode `jalr rs`, a call of the address in rs."""
    return r_type(JALR, rs, ZERO, RA)


def move(rd: int, rs: int) -> int:
    """Encode `move rd,rs`, which is or rd,rs,zero."""
    return r_type(OR, rs, ZERO, rd)


NOP = 0
"""`nop`, which is sll zero,zero,0."""

BLOCK_ENDS = (
    (0xF800_0000, J << 26),  # and jal
    (0xFC00_003E, JR),  # and jalr
    (0xF400_0000, BEQ << 26),  # and blez
    (0xF400_0000, 20 << 26),  # the likely forms of both
    (0xFC0D_0000, REGIMM << 26 | 1 << 16),  # bgez, bgezal, and their likely forms
)
"""Mask and value of jumps and branches. Those that compare for `not equal`, `less` or `greater`
are left out: with equal registers they never branch, and the emulator treats them as nops."""

MOVES = (OR, ADDU, DADDU)
"""Functions with which assemblers write `move`: the oldest use an addition."""

MOVES_AT_RA = tuple(r_type(function, RA, ZERO, AT) for function in MOVES)
"""`move at,ra`."""

ADDIU_SP = addiu(SP, SP, -8)
"""`addiu sp,sp,-8`: on o32 a site takes this stack for mcount, which gives it back."""


# What an instruction is


def has_delay_slot(word: int) -> bool:
    """Return whether `word` is a jump or a branch; each has a delay slot."""
    opcode, rs, rt, _ = i_fields(word)
    if opcode == SPECIAL:
        return word & 0x3F in (JR, JALR)
    if opcode == REGIMM:
        return rt in _REGIMM_BRANCHES
    if opcode in (_COP1, _COP2):
        return rs == _BC
    return opcode in _BRANCHES


def is_call(word: int) -> bool:
    """Return whether `word` is a jump or a branch that leaves a return address."""
    opcode, _, rt, _ = i_fields(word)
    if opcode == SPECIAL:
        return word & 0x3F == JALR
    return opcode in (JAL, JALX) or (opcode == REGIMM and rt in _REGIMM_CALLS)


def loaded(text: bytes, register: int, order: str) -> int | None:
    """Return the value that the first LUI and ADDIU load into `register`; None without them."""
    code = [word_at(text, order, at) for at in range(0, len(text) // WORD * WORD, WORD)]
    for high, low in pairwise(code):
        if high & ~0xFFFF == lui(register, 0) and low & ~0xFFFF == addiu(register, register, 0):
            return ((high & 0xFFFF) << 16) + _signed(low & 0xFFFF, 16) & 0xFFFF_FFFF
    return None
