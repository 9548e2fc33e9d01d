"""PowerPC instructions as the manual draws them: bit 0 is the most significant.

Source: Power ISA 2.07, Book I, section 1.6 (formats) and the pages of the instructions.
"""

from __future__ import annotations

from ...core.encoding import Encoding, cut, distance, signed, window
from . import insn

_NAMES = {
    **{7: "mulli", 10: "cmpli", 11: "cmpi", 14: "addi", 15: "addis", 16: "bc", 18: "b"},
    **{24: "ori", 25: "oris", 28: "andi.", 32: "lwz", 33: "lwzu", 34: "lbz", 36: "stw"},
    **{37: "stwu", 38: "stb", 40: "lhz", 44: "sth", 58: "ld, ldu, lwa", 62: "std, stdu"},
    **{19: "XL-form", 31: "X-form and kin"},
}
_DS_NAMES = {(58, 0): "ld", (58, 1): "ldu", (58, 2): "lwa", (62, 0): "std", (62, 1): "stdu"}
_LOGICAL = frozenset(range(24, 30))
_TO_CTR, _TO_LR = 528, 16


def encoding(ip: int, text: bytes, modulus: int) -> Encoding | None:
    """Return the fields of the instruction at `ip`; None for an unknown one."""
    if len(text) < insn.WORD:
        return None
    word = insn.word_at(text)
    opcode = word >> 26
    if opcode == 18:
        return _branch(ip, word, modulus, ("LI", 24), "I-form")
    if opcode == 16:
        return _branch(ip, word, modulus, ("BD", 14), "B-form", (("BO", 5), ("BI", 5)))
    if opcode == 19:
        return _xl(word)
    if opcode == 31:
        return _x(word)
    if opcode in (insn.LD, insn.STD):
        return _ds(word)
    if opcode in _NAMES or 32 <= opcode < 56:
        return _d(word)
    return None


def _opcode(word: int) -> tuple[str, int, str]:
    return "opcode", 6, f"{word >> 26}, {_NAMES.get(word >> 26, 'a load or a store')}"


def _branch(
    ip: int,
    word: int,
    modulus: int,
    field: tuple[str, int],
    form: str,
    more: tuple[tuple[str, int], ...] = (),
) -> Encoding:
    absolute, link = bool(word & 2), bool(word & 1)
    name, width = field
    middle = sum(size for _, size in more)
    words = signed(cut(word, ("", 6 + middle), ("", width), ("", 2))[1])
    return Encoding(
        form,
        cut(
            word,
            _opcode(word),
            *more,
            (name, width, distance(words, insn.WORD)),
            ("AA", 1, "from address 0" if absolute else "from this instruction"),
            ("LK", 1, "LR gets the next address" if link else "LR stays as it is"),
        ),
        from_left=True,
        rule=f"target = {name} * 4" if absolute else f"target = ip + {name} * 4",
        reach=None if absolute else window(ip, width, insn.WORD, modulus),
    )


def _xl(word: int) -> Encoding:
    xo = word >> 1 & 0x3FF
    to = {_TO_CTR: "CTR", _TO_LR: "LR"}.get(xo)
    return Encoding(
        "XL-form",
        cut(
            word,
            _opcode(word),
            ("BO", 5, "always" if to and word >> 21 & 20 == 20 else ""),
            ("BI", 5),
            ("BH", 5),
            ("XO", 10, f"{xo}, branch to {to}" if to else f"{xo}"),
            ("LK", 1, "LR gets the next address" if word & 1 else "LR stays as it is"),
        ),
        from_left=True,
        rule=f"target = {to}" if to else "",
    )


def _x(word: int) -> Encoding:
    fields = insn.xfx_fields(word)
    register = f"r{word >> 21 & 31}"
    if fields is not None and fields[0] in (insn.MTSPR, 339):
        spr = fields[1]
        name = {8: "LR", 9: "CTR"}.get(spr, f"spr {spr}")
        to = fields[0] == insn.MTSPR
        return Encoding(
            "XFX-form",
            cut(
                word,
                _opcode(word),
                ("RS" if to else "RT", 5, register),
                ("spr", 10, f"{spr} with its halves swapped, {name}"),
                ("XO", 10, f"{fields[0]}, {'mtspr' if to else 'mfspr'}"),
                ("", 1),
            ),
            from_left=True,
            rule=f"{name} = RS" if to else f"RT = {name}",
        )
    parts = (
        ("RT", 5, register),
        ("RA", 5, f"r{word >> 16 & 31}"),
        ("RB", 5, f"r{word >> 11 & 31}"),
    )
    xo = word >> 1 & 0x3FF
    return Encoding(
        "X-form", cut(word, _opcode(word), *parts, ("XO", 10, f"{xo}"), ("Rc", 1)), from_left=True
    )


def _d(word: int) -> Encoding:
    opcode, rt, ra, d = insn.d_fields(word)
    if word == insn.NOP:
        rule = "nop: r0 = r0 | 0"
    elif opcode in (insn.ADDI, insn.ADDIS):
        what = "SI" if opcode == insn.ADDI else "SI * 0x10000"
        rule = f"RT = RA + {what}" if ra else f"RT = {what}"
    elif opcode in _LOGICAL:
        rule = ""
    else:
        rule = "address = RA + D" if opcode >= 32 else ""
    if opcode in _LOGICAL:
        parts = (("RS", 5, f"r{rt}"), ("RA", 5, f"r{ra}"), ("UI", 16, f"{d & 0xFFFF:#x}"))
    else:
        name = "D" if opcode >= 32 else "SI"
        base = f"r{ra}" if ra else "none: 0"
        parts = (("RT", 5, f"r{rt}"), ("RA", 5, base), (name, 16, f"{d:+#x}"))
    return Encoding("D-form", cut(word, _opcode(word), *parts), from_left=True, rule=rule)


def _ds(word: int) -> Encoding:
    _, rt, ra, d, xo = insn.ds_fields(word)
    name = _DS_NAMES.get((word >> 26, xo))
    return Encoding(
        "DS-form",
        cut(
            word,
            _opcode(word),
            ("RT" if word >> 26 == insn.LD else "RS", 5, f"r{rt}"),
            ("RA", 5, f"r{ra}"),
            ("DS", 14, f"{d // 4:+d} words, {d:+d} bytes"),
            ("XO", 2, f"{xo}" if name is None else f"{xo}, {name}"),
        ),
        from_left=True,
        rule="address = RA + DS * 4",
    )
