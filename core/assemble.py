"""Assembly to bytes: the port's entry.S at start, and single lines for `poke`.

Keystone 0.9.2 leaves three things to its caller. It places a call of an
external symbol four bytes off on x86, so external symbols are found in a first
pass, in which every one of them stands for a nearby address, and go into the
source as numbers before the second. It never sets the radix of numbers without
a prefix, so that `16` means 16 or 22 by what lay in memory before: decimal
numbers are written in hexadecimal for it. And it does not tell where labels
came to lie, so the source gets a line `.long label - start` for each exported
label at its end, whose assembled values are read and cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from keystone.keystone import Ks, KsError

from .arch import EntryCode, Facts
from .errors import AssemblyError

Resolver = Callable[[str], int | None]
"""Finds the address of a symbol; None where there is none."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_GLOBL = re.compile(r"^[ \t]*\.glob[a]?l[ \t]+(?P<name>[.\w$]+)[ \t]*$", re.MULTILINE)
_DECIMAL = re.compile(r"(?<![\w.$%])[1-9][0-9]+(?!\w)")
_START = "assembly_start"


def assemble(facts: Facts, source: str, address: int, resolve: Resolver) -> EntryCode:
    """Assemble `source` for `address`; its exported labels are those of its `.globl` lines.

    Comments are those of C. Raises `AssemblyError` with the line where one can
    be told.
    """
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    if not text.isascii() or "\0" in text:
        raise AssemblyError("the source is not plain ASCII", source)
    exported = [match["name"] for match in _GLOBL.finditer(text)]
    text = _DECIMAL.sub(lambda match: hex(int(match[0])), _GLOBL.sub("", text))
    text = _with_numbers(facts, text, address, resolve)
    offsets = "".join(f"\n.long {name} - {_START}" for name in exported)
    code = _assemble(facts, f"{_START}: {text}{offsets}", address)
    if code is None:
        raise _error(facts, text, address)
    size = len(code) - 4 * len(exported)
    symbols = {
        name: _integer(code[size + 4 * row : size + 4 * row + 4], facts)
        for row, name in enumerate(exported)
    }
    return EntryCode(code[:size], symbols)


def assemble_line(facts: Facts, line: str, address: int, resolve: Resolver) -> bytes:
    """Assemble the instructions of one line for `address`. Raises `AssemblyError`."""
    if any(statement.strip().startswith(".") for statement in line.split(";")):
        raise AssemblyError("directives are not taken here", line)
    code = assemble(facts, line, address, resolve).code
    if not code:
        raise AssemblyError("there is no instruction", line)
    return code


def _integer(raw: bytes, facts: Facts) -> int:
    return int.from_bytes(raw, "little" if facts.byteorder == "little" else "big")


def _with_numbers(facts: Facts, text: str, address: int, resolve: Resolver) -> str:
    """The source with the addresses of external symbols in their place."""
    names: list[str] = []
    _assemble(facts, f"{_START}: {text}", address, names)
    for name in dict.fromkeys(names):
        value = resolve(name)
        if value is None:
            place = re.search(_word(name), text)
            line = text.count("\n", 0, place.start()) + 1 if place and "\n" in text else 0
            raise AssemblyError(f"symbol {name} is not defined", text, line)
        text = re.sub(_word(name), hex(value), text)
    return text


def _word(name: str) -> str:
    """A pattern for `name` as a whole word of assembly."""
    return rf"(?<![\w.$]){re.escape(name)}(?![\w.$])"


def _assemble(
    facts: Facts, text: str, address: int, externals: list[str] | None = None
) -> bytes | None:
    """The bytes of `text`, None where Keystone refuses it.

    With `externals`, symbols that are not defined are added to it and taken to
    lie at `address`.
    """
    engine: Ks = Ks(facts.engine.ks_arch, facts.engine.ks_mode)
    if externals is not None:
        found = externals

        def nearby(name: bytes, value: list[int]) -> bool:
            found.append(name.decode("ascii", "replace"))
            value[0] = address
            return True

        engine.sym_resolver = nearby
    try:
        code, _ = engine.asm(text, address, True)
    except KsError:
        return None
    return bytes(code or b"")


def _error(facts: Facts, text: str, address: int) -> AssemblyError:
    """What is wrong with `text`, and in which line: the end of its shortest bad beginning."""
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        if _assemble(facts, "\n".join(lines[:count]), address, []) is None:
            break
    engine: Ks = Ks(facts.engine.ks_arch, facts.engine.ks_mode)
    reason = "the assembler refuses it"
    try:
        engine.asm(text, address)
    except KsError as error:
        reason = str(error).split(" (KS_")[0]
    line = lines[count - 1].strip()
    return AssemblyError(f"{reason}: {line}", text, count if len(lines) > 1 else 0)
