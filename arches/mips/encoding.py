"""MIPS instructions as the manual draws them: bit 31 is the most significant.

Source: MIPS Architecture For Programmers, Volume I-A, "CPU Instruction Formats", and
Volume II-A, the pages of the instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.encoding import BitField, Encoding, cut, distance, window
from . import insn

_NAMES = {
    **{0: "SPECIAL", 1: "REGIMM", 2: "j", 3: "jal", 4: "beq", 5: "bne", 6: "blez", 7: "bgtz"},
    **{9: "addiu", 10: "slti", 11: "sltiu", 12: "andi", 13: "ori", 14: "xori", 15: "lui"},
    **{25: "daddiu", 28: "SPECIAL2", 29: "jalx", 31: "SPECIAL3", 32: "lb", 33: "lh", 35: "lw"},
    **{36: "lbu", 37: "lhu", 39: "lwu", 40: "sb", 41: "sh", 43: "sw", 55: "ld", 63: "sd"},
}
_FUNCTIONS = {
    **{0: "sll", 2: "srl", 3: "sra", 8: "jr", 9: "jalr", 33: "addu", 35: "subu", 36: "and"},
    **{37: "or", 38: "xor", 42: "slt", 43: "sltu", 45: "daddu", 47: "dsubu"},
}
_UNSIGNED = frozenset({12, 13, 14, 15})  # their immediates are not sign-extended


def encoding(
    ip: int, text: bytes, order: str, names: Sequence[str], modulus: int
) -> Encoding | None:
    """Return the fields of the instruction at `ip`; `names` are the ABI's register names."""
    if len(text) < insn.WORD:
        return None
    word = insn.word_at(text, order)
    opcode = word >> 26
    if opcode in (insn.J, insn.JAL, insn.JALX):
        return _jump(ip, word)
    if opcode in (insn.SPECIAL, 28, 31):
        return _r_type(word, names)
    if insn.has_delay_slot(word):
        return _branch(ip, word, names, modulus)
    return _i_type(word, names) if opcode in _NAMES else None


def _opcode(word: int) -> tuple[str, int, str]:
    return "opcode", 6, f"{word >> 26}, {_NAMES[word >> 26]}"


def _jump(ip: int, word: int) -> Encoding:
    index = word & insn.REGION // insn.WORD - 1
    region = (ip + insn.WORD) // insn.REGION * insn.REGION
    return Encoding(
        "J-type",
        cut(word, _opcode(word), ("instr_index", 26, f"word {index:#x} of the region")),
        rule="target = (ip + 4 with its low 28 bits 0) + instr_index * 4",
        reach=(region, region + insn.REGION - insn.WORD),
    )


def _branch(ip: int, word: int, names: Sequence[str], modulus: int) -> Encoding:
    opcode, rs, rt, offset = insn.i_fields(word)
    always = (opcode, rs, rt) == (insn.BEQ, 0, 0)
    second = f"{rt}, which condition" if opcode == insn.REGIMM else names[rt]
    fields = cut(
        word,
        (*_opcode(word)[:2], _NAMES.get(opcode, "a branch") + (", always" if always else "")),
        ("rs", 5, names[rs]),
        ("rt", 5, second),
        ("offset", 16, distance(offset, insn.WORD)),
    )
    reach = window(ip + insn.WORD, 16, insn.WORD, modulus)
    return Encoding("I-type", fields, rule="target = ip + 4 + offset * 4", reach=reach)


def _i_type(word: int, names: Sequence[str]) -> Encoding:
    opcode, rs, rt, value = insn.i_fields(word)
    shown = f"{value & 0xFFFF:#x}" if opcode in _UNSIGNED else f"{value:+#x}"
    rules = {
        insn.LUI: "rt = immediate * 0x10000",
        insn.ADDIU: "rt = rs + immediate",
        insn.DADDIU: "rt = rs + immediate",
    }
    return Encoding(
        "I-type",
        cut(
            word,
            _opcode(word),
            ("rs", 5, names[rs]),
            ("rt", 5, names[rt]),
            ("immediate", 16, shown),
        ),
        rule=rules.get(opcode, "address = rs + immediate" if opcode >= 32 else ""),
    )


def _r_type(word: int, names: Sequence[str]) -> Encoding:
    function, plain = word & 0x3F, word >> 26 == insn.SPECIAL
    rule = {insn.JR: "target = rs", insn.JALR: "target = rs; rd = ip + 8"}.get(function, "")
    if word == insn.NOP:
        rule = "nop: zero = zero << 0"
    elif function in (insn.OR, insn.ADDU, insn.DADDU):
        rule = f"rd = rs {'|' if function == insn.OR else '+'} rt"
    registers = [
        (name, 5, names[word >> at & 31]) for name, at in (("rs", 21), ("rt", 16), ("rd", 11))
    ]
    known = _FUNCTIONS.get(function) if plain else None
    last = ("function", 6, f"{function}, {known}" if known else f"{function}")
    fields: tuple[BitField, ...] = cut(word, _opcode(word), *registers, ("sa", 5), last)
    return Encoding("R-type", fields, rule=rule if plain else "")
