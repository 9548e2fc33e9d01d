"""A64 instructions as the manual draws them: bit 31 is the most significant.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), C4.1 (the encoding
of instructions) and C6.2.
"""

from __future__ import annotations

from ...core.encoding import Encoding, cut, distance, signed, window
from . import insn

_PAGE = 1 << insn.PAGE_BITS


def encoding(ip: int, text: bytes) -> Encoding | None:
    """Return the fields of the instruction at `ip`; None for one that ftrace never meets."""
    if len(text) < insn.WORD:
        return None
    word = insn.word_at(text)
    if insn.branch_target(ip, word) is not None:
        return _branch(ip, word)
    if insn.adrp_fields(word) is not None:
        return _adrp(ip, word)
    if insn.add_fields(word) is not None:
        return _add(word)
    if insn.mov_fields(word) is not None:
        return _mov(word)
    if insn.br_register(word) is not None or insn.is_call(word):
        return _register(word)
    return _hint(word) if word >> 12 == insn.NOP >> 12 else None


def _branch(ip: int, word: int) -> Encoding:
    link = insn.is_bl(word)
    words = signed(cut(word, ("", 6), ("", 26))[1])
    fields = cut(
        word,
        ("op", 1, "bl: x30 gets the next address" if link else "b: x30 stays as it is"),
        ("", 5),
        ("imm26", 26, distance(words, insn.WORD)),
    )
    reach = window(ip, 26, insn.WORD, 1 << 64)
    return Encoding("branch (immediate)", fields, rule="target = ip + imm26 * 4", reach=reach)


def _adrp(ip: int, word: int) -> Encoding:
    found = insn.adrp_fields(word)
    assert found is not None
    rd, pages = found
    fields = cut(
        word,
        ("op", 1, "adrp: pages"),
        ("immlo", 2, "the low bits of the number"),
        ("", 5),
        ("immhi", 19, f"with immlo {pages:+d} pages, {pages * _PAGE:+#x} bytes"),
        ("Rd", 5, f"x{rd}"),
    )
    rule = "Rd = (ip with its low 12 bits 0) + immhi:immlo * 0x1000"
    return Encoding(
        "pc-relative", fields, rule=rule, reach=window(ip // _PAGE * _PAGE, 21, _PAGE, 1 << 64)
    )


def _add(word: int) -> Encoding:
    found = insn.add_fields(word)
    assert found is not None
    rd, rn, immediate = found
    fields = cut(
        word,
        ("sf", 1, "64 bits"),
        ("op", 1, "add"),
        ("S", 1, "flags stay"),
        ("", 6),
        ("sh", 1, "imm12 is not shifted"),
        ("imm12", 12, f"{immediate:#x}"),
        ("Rn", 5, _name(rn)),
        ("Rd", 5, _name(rd)),
    )
    return Encoding("add (immediate)", fields, rule="Rd = Rn + imm12")


def _mov(word: int) -> Encoding:
    found = insn.mov_fields(word)
    assert found is not None
    rd, rm = found
    fields = cut(
        word,
        ("sf", 1, "64 bits"),
        ("opc", 2, "orr"),
        ("", 5),
        ("shift", 2),
        ("N", 1),
        ("Rm", 5, f"x{rm}"),
        ("imm6", 6, "not shifted"),
        ("Rn", 5, "xzr"),
        ("Rd", 5, f"x{rd}"),
    )
    return Encoding("logical (shifted register)", fields, rule="Rd = Rm, which is xzr | Rm")


def _register(word: int) -> Encoding:
    call = insn.is_call(word)
    fields = cut(
        word,
        ("", 9),
        ("op", 2, "blr: x30 gets the next address" if call else "br"),
        ("", 11),
        ("Rn", 5, f"x{word >> 5 & 31}"),
        ("", 5),
    )
    return Encoding("branch (register)", fields, rule="target = Rn")


def _hint(word: int) -> Encoding:
    number = word >> 5 & 0x7F
    fields = cut(
        word,
        ("", 20),
        ("CRm", 4),
        ("op2", 3, f"with CRm hint #{number}" + (", nop" if word == insn.NOP else "")),
        ("", 5),
    )
    return Encoding("hint", fields)


def _name(number: int) -> str:
    return "sp" if number == 31 else f"x{number}"
