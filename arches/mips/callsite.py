"""Call sites of all ports: a near call and its delay slot, or the words of a far one.

The forms are in the table of insn.py; the compiled text of a site shows its form. Many sites are
encoded at once. A near site calls its target directly if it reaches it, or else the target's
stub in its module. A far site calls what it was compiled to call, which may be a stub too:
mcount acts as one for ftrace_caller. The text of a call that cannot be encoded is all ones,
because zeros are nops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Addresses, Calls, Effect, Sites
from . import insn
from .insn import ADDIU, DADDIU, LUI, NOP, RA, V1, WORD, Words

NEAR, FAR, FARTHEST, WIDE = 2, 5, 7, 9
"""Instructions of a near site, the minimum and maximum of a far one, and those of a far one with
an address of 64 bits."""

NAIVE, LINUX = "nop", "linux"
"""Ways to disable a site besides the branch `b`: nops in all words, which a lesson shows to be
unsafe if a task is inside; and the two words that 32-bit Linux writes."""

SKIPPED = 2 * WORD
"""Bytes at the start of ftrace_caller that give back the stack of a site's delay slot."""

UNENCODABLE = 0xFFFF_FFFF
"""The text of a call that cannot be encoded."""

_OVER_NEAR = insn.b(NEAR * WORD)
_OVERS = tuple(insn.b(words * WORD) for words in range(FAR, WIDE + 1))
"""Branches over near and far calls."""

_UPPER, _ALL = 0xFFFF_0000, 0xFFFF_FFFF

Word = tuple[tuple[int, int], ...]
"""Forms of an instruction: values, each with a mask of its fixed bits."""

_MOVE: Word = tuple((each, _ALL) for each in insn.MOVES_AT_RA)
_JALR: Word = ((insn.jalr(V1), _ALL),)
_NOP: Word = ((NOP, _ALL),)
_RA_ADDRESS: Word = (
    (insn.addiu(insn.T4, insn.SP, 0), _UPPER),
    *((insn.r_type(function, insn.ZERO, insn.ZERO, insn.T4), _ALL) for function in insn.MOVES),
)
"""The address of the word in which the function has saved ra, or zero: -mmcount-ra-address."""

_WIDE: tuple[Word, ...] = (
    ((insn.lui(V1, 0), _UPPER),),  # %highest
    ((insn.lui(insn.AT, 0), _UPPER),),  # %hi
    ((insn.i_type(DADDIU, V1, V1, 0), _UPPER),),  # %higher
    ((insn.i_type(DADDIU, insn.AT, insn.AT, 0), _UPPER),),  # %lo
    ((insn.DSLL32_V1, _ALL),),
    ((insn.r_type(insn.DADDU, V1, insn.AT, V1), _ALL),),
    *(_MOVE, _JALR, _NOP),
)
"""A far call of 64 bits."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a site: it differs between ABIs and between ways to disable a site."""

    order: str
    """`big` or `little`."""
    bits: int
    """Width of an address, in bits."""
    slot: int
    """The compiler's instruction in the delay slot of a call of mcount."""
    nop: str = "b"
    """How sites are disabled, one of `NOPS`."""

    @property
    def most(self) -> int:
        """Number of instructions of the longest site."""
        return FARTHEST if self.bits == 32 else WIDE

    @property
    def add(self) -> int:
        """Opcode of the instruction that adds the low half of an address."""
        return ADDIU if self.bits == 32 else DADDIU

    @property
    def near_nops(self) -> tuple[int, int]:
        """The text of a disabled near site: with a branch if two words change, or nops."""
        return NOP if self.nop == NAIVE or self.slot == NOP else _OVER_NEAR, NOP

    @property
    def far(self) -> tuple[tuple[Word, ...], ...]:
        """The forms of a far call with an address of two halves.

        Without optimization the instruction for the delay slot is before the call.
        """
        start: tuple[Word, ...] = (
            ((insn.lui(V1, 0), _UPPER),),
            ((insn.i_type(self.add, V1, V1, 0), _UPPER),),
            _MOVE,
        )
        slot: Word = ((self.slot, _ALL),)
        ends: tuple[tuple[Word, ...], ...] = ((_JALR, slot),)
        if self.slot != NOP:
            ends += ((slot, _JALR, _NOP),)
        between: tuple[tuple[Word, ...], ...] = ((),) if self.bits == 64 else ((), (_RA_ADDRESS,))
        return tuple((*start, *each, *end) for each in between for end in ends)


def lengths(form: Form, sites: Sites) -> NDArray[np.intp]:
    """Return the number of instructions of each of `sites`."""
    return _lengths(form, _compiled(form, sites))


def _lengths(form: Form, compiled: Words) -> NDArray[np.intp]:
    """Return the number of instructions of each site, from its compiled text."""
    found = np.full(len(compiled), NEAR, np.intp)
    for each in (*form.far, _WIDE) if form.bits == 64 else form.far:
        found[_matches(compiled, each)] = len(each)
    return found


def calls(form: Form, sites: Sites, target: int) -> Calls:
    """Encode a call of `target` at each of `sites`."""
    compiled = _compiled(form, sites)
    length = _lengths(form, compiled)
    is_wide, is_far = length == WIDE, length != NEAR
    address = np.full(len(sites), target, np.uint64)
    stubs = sites.stub(target)
    word, reaches = insn.jal(sites.ip, address)
    stub_word, stub_reaches = insn.jal(sites.ip, stubs)
    loaded = np.where(is_wide, _loaded_wide(compiled), _loaded(form, compiled))
    by_stub = (stubs != 0) & np.where(is_far, loaded != address, ~reaches)
    near = np.where(by_stub, stub_reaches, reaches)
    reachable = np.where(is_far, loaded == np.where(by_stub, stubs, address), near)

    width = min(form.most, sites.compiled.shape[1] // WORD) if _known(sites) else NEAR
    text = compiled[:, :width].copy()
    nops = text.copy()
    text[~is_far, 0] = np.where(by_stub, stub_word, word)[~is_far]
    text[~is_far, 1] = form.slot
    nops[~is_far, :NEAR] = form.near_nops
    if form.nop == NAIVE:
        nops[is_far] = NOP
    else:
        nops[is_far, 0] = insn.b(WORD) + length[is_far].astype(np.uint32) - 1
    if form.nop == LINUX:
        nops[is_far, 1] = NOP
        direct = ~is_far & ~by_stub
        text[direct, 0] = insn.jal(sites.ip, address + np.uint64(SKIPPED))[0][direct]
        text[direct, 1] = NOP
        nops[direct, 0] = NOP
    text[~reachable] = UNENCODABLE
    via = np.where(by_stub & reachable, stubs, np.uint64(0))
    return Calls(
        insn.bytes_of(text, form.order),
        insn.bytes_of(nops, form.order),
        reachable,
        via,
        length * WORD if _known(sites) else np.full(len(sites), NEAR * WORD),
    )


def slot_calls(form: Form, sites: Sites, target: int) -> Calls:
    """Encode a `jal` of `target` at slots of entry.S, one word each: it reaches all tracers."""
    words, reachable = insn.jal(sites.ip, np.full(len(sites), target, np.uint64))
    text = insn.bytes_of(words[:, None], form.order)
    nops = insn.bytes_of(np.full((len(sites), 1), NOP, np.uint32), form.order)
    return Calls(text, nops, reachable)


def call_target(form: Form, ip: int, text: bytes) -> int | None:
    """Return the target of `text` at `ip`, from its first word or from a loaded address.

    None for a branch within `text` or to its end: execution just continues.
    """
    words = _words(form, text)
    if not words:
        return None
    target = insn.jump_target(ip, words[0])
    if target is None:
        target = insn.branch_target(ip, words[0])
        if target is not None and ip < target <= ip + len(text):
            return None
    if target is None:
        target = _far_target(form, words)
    return None if target is None else target % (1 << form.bits)


def emulate(form: Form, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
    """Return the effect of the two words of a near site `text`.

    `registers` holds sp. Raises `ValueError` for any other text, including a far site, whose
    target is in a register that is not known here.
    """
    if text in (insn.pack(form.order, NOP, NOP), insn.pack(form.order, *form.near_nops)):
        return Effect({"pc": ip + len(text)})
    words = _words(form, text)
    slots = (form.slot, NOP) if form.nop == LINUX else (form.slot,)
    if len(words) != NEAR or words[0] >> 26 != insn.JAL or words[1] not in slots:
        raise ValueError(f"no call site has the text {text.hex(' ')}")
    target = call_target(form, ip, text)
    assert target is not None
    effect = {"pc": target, "ra": ip + insn.CALL}
    if words[1] == insn.ADDIU_SP:
        effect["sp"] = registers["sp"] - 8
    return Effect(effect)


def explain(form: Form, ip: int, expected: bytes, found: bytes) -> str:
    """Return why a site is refused, in one clause; see `Port.explain`.

    The MIPS kernel has no message for it: it writes without comparing.
    """
    want, have = _words(form, expected), _words(form, found)
    if not want or len(want) != len(have):
        return ""
    if want == have or want[0] == UNENCODABLE:
        if have[0] in _OVERS or have[0] >> 16 == insn.lui(V1, 0) >> 16:
            return "the far call loads another address, but only its first word may change"
        return "out of reach of a jal (its own 256 MB region), and no stub leads there"
    row = next(row for row, pair in enumerate(zip(want, have, strict=True)) if len(set(pair)) > 1)
    what = _what(form, ip, want, row)
    return f"Expected {want[row]:08x}{what and f', {what},'} found {have[row]:08x}"


def _what(form: Form, ip: int, want: list[int], row: int) -> str:
    """Return a phrase for word `row` of the text `want`."""
    opcode = want[0] >> 26
    if row:
        delayed = opcode in (insn.JAL, insn.J) or want[0] in (_OVER_NEAR, *_OVERS)
        if len(want) > NEAR:
            last = row == len(want) - 1
            return f"word {row} of the far call" + (", in a delay slot" if last else "")
        return "in the delay slot" if delayed else "after the first word"
    target = insn.jump_target(ip, want[0])
    if target is not None:
        name = "jal" if opcode == insn.JAL else "j"
        return f"a {name} to {target % (1 << form.bits):x}"
    names = dict.fromkeys(_OVERS, "the b over the far call")
    names |= {_OVER_NEAR: "the b over the call", NOP: "a nop"}
    return names.get(want[0], "the lui of a far call" if opcode == LUI else "")


def _compiled(form: Form, sites: Sites) -> Words:
    """Return the compiled text of each site, shape (n, `form.most`); zeros if it is unknown."""
    found = np.zeros((len(sites), form.most), np.uint32)
    if _known(sites):
        words = insn.words_of(sites.compiled[:, : form.most * WORD], form.order)
        found[:, : words.shape[1]] = words
    return found


def _known(sites: Sites) -> bool:
    width: int = sites.compiled.shape[1]
    return width >= FAR * WORD


def _matches(words: Words, form: tuple[Word, ...]) -> NDArray[np.bool_]:
    """Return which rows of `words` begin with the instructions of `form`."""
    found = np.full(len(words), words.shape[1] >= len(form), np.bool_)
    for column, word in zip(words.T, form, strict=False):
        alternatives = [(column & np.uint32(mask)) == np.uint32(value) for value, mask in word]
        found &= np.logical_or.reduce(alternatives)
    return found


def _loaded_wide(words: Words) -> Addresses:
    """Return the addresses that the first six of `words` load; undefined for other words."""
    if words.shape[1] < WIDE:
        return np.zeros(len(words), np.uint64)
    highest, high, higher, low = (
        words[:, row].astype(np.uint16).astype(np.int16).astype(np.int64) for row in range(4)
    )
    upper = (highest << 16) + higher
    address: Addresses = ((upper << 32) + (high << 16) + low).view(np.uint64)
    return address


def _loaded(form: Form, words: Words) -> Addresses:
    """Return the addresses that the first two of `words` load; undefined for other words."""
    high, low = (
        words[:, row].astype(np.uint16).astype(np.int16).astype(np.int64) for row in (0, 1)
    )
    address: Addresses = ((high << 16) + low).view(np.uint64)
    return address & np.uint64((1 << form.bits) - 1)


def _far_target(form: Form, words: list[int]) -> int | None:
    """Return the target of words that load an address and jump to it; None for other words."""
    if len(words) < 2:
        return None
    row = np.array([words[:WIDE]], np.uint32)
    if form.bits == 64 and _matches(row, _WIDE)[0]:
        return int(_loaded_wide(row)[0])
    opcode, rs, register, high = insn.i_fields(words[0])
    if (opcode, rs) != (LUI, insn.ZERO):
        return None
    opcode, source, into, low = insn.i_fields(words[1])
    if (opcode, source, into) != (form.add, register, register):
        return None
    for word in words[2:]:
        if word in (insn.jr(register), insn.r_type(insn.JALR, register, insn.ZERO, RA)):
            return (high << 16) + low
        between = (*_MOVE, *_RA_ADDRESS, *_NOP, (form.slot, _ALL))
        if not any(word & mask == value for value, mask in between):
            return None
    return None


def _words(form: Form, text: bytes) -> list[int]:
    whole = len(text) - len(text) % WORD
    return [insn.word_at(text, form.order, offset) for offset in range(0, whole, WORD)]
