"""x86 instructions as the manual lists them: bytes in the order of memory.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, 2.1
(prefixes, ModR/M and SIB) and the pages of the instructions.
"""

from __future__ import annotations

from ...core.encoding import BitField, Encoding, distance, window
from . import insn

_PREFIXES = {0x66: "operands of 16 bits", 0x3E: "segment ds", 0x2E: "segment cs"}
_PLAIN = {0x90: "nop", 0xCC: "int3", 0xC3: "ret"}
_LEA, _TWO, _NOP_OPERAND = 0x8D, 0x0F, 0x1F
_NO_BASE = 5  # with mod 0: no base register, but a 32-bit displacement


def encoding(ip: int, text: bytes, bits: int) -> Encoding | None:
    """Return the fields of the instruction at `ip`; None for one that ftrace never meets."""
    if not text:
        return None
    if text[0] in (insn.CALL, insn.JMP) and len(text) >= insn.REL32_SIZE:
        return _branch(ip, text[: insn.REL32_SIZE], bits)
    if text[0] == insn.JMP8 and len(text) >= insn.JMP8_SIZE:
        return _branch(ip, text[: insn.JMP8_SIZE], bits)
    if text[0] in _PLAIN:
        return _bytes("one byte", _field("opcode", text[:1], _PLAIN[text[0]]))
    return _operand(text)


def _field(name: str, raw: bytes, meaning: str) -> BitField:
    return BitField(name, "".join(f"{byte:08b}" for byte in raw), meaning)


def _bytes(form: str, *fields: BitField, rule: str = "") -> Encoding:
    return Encoding(form, fields, 8, True, rule)


def _branch(ip: int, text: bytes, bits: int) -> Encoding:
    name = {insn.CALL: "call", insn.JMP: "jmp", insn.JMP8: "jmp"}[text[0]]
    field, size = f"rel{8 * (len(text) - 1)}", len(text)
    away = int.from_bytes(text[1:], "little", signed=True)
    return Encoding(
        f"{name} {field}",
        (
            _field("opcode", text[:1], f"{text[0]:#04x}, {name}"),
            _field(field, text[1:], f"low byte first: {distance(away, 1)}, {away:+#x}"),
        ),
        8,
        True,
        f"target = ip + {size} + {field}",
        window(ip + size, 8 * (size - 1), 1, 1 << bits),
    )


def _operand(text: bytes) -> Encoding | None:
    """Return the fields of a `nop` or `lea` with an operand in memory; None for others."""
    fields: list[BitField] = []
    at = 0
    while at < len(text) and text[at] in _PREFIXES:
        fields.append(_field("prefix", text[at : at + 1], _PREFIXES[text[at]]))
        at += 1
    if text[at : at + 2] == bytes((_TWO, _NOP_OPERAND)):
        fields.append(_field("opcode", text[at : at + 2], "nop with an operand"))
        name, at = "nop", at + 2
    elif text[at : at + 1] == bytes((_LEA,)):
        fields.append(_field("opcode", text[at : at + 1], "lea"))
        name, at = "lea", at + 1
    else:
        return None
    if at >= len(text):
        return None
    modrm = text[at]
    mod, rm = modrm >> 6, modrm & 7
    has_sib = mod != 3 and rm == 4
    displacement = {0: 0, 1: 1, 2: 4, 3: 0}[mod]
    base = text[at + 1] & 7 if has_sib and at + 1 < len(text) else rm
    if mod == 0 and base == _NO_BASE:
        displacement = 4
    if len(text) < at + 1 + has_sib + displacement:
        return None
    what = f"mod {mod}, reg {modrm >> 3 & 7}, r/m {rm}"
    fields.append(
        _field("ModR/M", text[at : at + 1], what + (": a SIB follows" if has_sib else ""))
    )
    at += 1
    if has_sib:
        sib = text[at]
        shown = f"scale {1 << (sib >> 6)}, index {sib >> 3 & 7}, base {sib & 7}"
        fields.append(_field("SIB", text[at : at + 1], shown))
        at += 1
    if displacement:
        raw = text[at : at + displacement]
        value = int.from_bytes(raw, "little", signed=True)
        fields.append(_field(f"disp{8 * displacement}", raw, f"{value:+#x}"))
    rule = "does nothing: nothing is read" if name == "nop" else "reg = the operand's address"
    return _bytes(f"{name} with ModR/M", *fields, rule=rule)
