"""Assembly to bytes: the port's entry.S at start, and single lines for `poke`.

Keystone 0.9.2 leaves four things to its caller. It places a call of an
external symbol four bytes off on some architectures, so external symbols are found in a first
pass, in which every one of them stands for a nearby address, and go into the
source as numbers before the second. It never sets the radix of numbers without
a prefix, so that `16` means 16 or 22 by what lay in memory before: decimal
numbers are written in hexadecimal for it. And it does not tell where labels
came to lie, so the source gets a line `.long label - start` for each exported
label at its end, whose assembled values are read and cut off. And where it
knows registers by a prefix only, it drops an instruction that names them
without: they get the prefix.
"""

from __future__ import annotations

import json
import re
import selectors
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from . import keystone_child
from .arch import EntryCode
from .errors import AssemblyError
from .facts import Facts
from .keystone_child import Answer, assemble_once

Resolver = Callable[[str], int | None]
"""Finds the address of a symbol; None where there is none."""

PATIENCE = 2.0
"""Seconds of the host a typed line may take before it is given up."""

_Assembler = Callable[[str, bool], Answer]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_GLOBL = re.compile(r"^[ \t]*\.glob[a]?l[ \t]+(?P<name>[.\w$]+)[ \t]*$", re.MULTILINE)
_DECIMAL = re.compile(r"(?<![\w.$%])[1-9][0-9]+(?!\w)")
_SUM = re.compile(r"[.\w$]+(?:\s*[+-]\s*[.\w$]+)*")
_START = "assembly_start"


def assemble(facts: Facts, source: str, address: int, resolve: Resolver) -> EntryCode:
    """Assemble `source` for `address`; its exported labels are those of its `.globl` lines.

    Comments are those of C. Raises `AssemblyError` with the line where one can
    be told.
    """

    def here(text: str, lenient: bool) -> Answer:
        return assemble_once(facts.engine.ks_arch, facts.engine.ks_mode, text, address, lenient)

    return _assemble(facts, source, resolve, here)


def assemble_line(facts: Facts, line: str, address: int, resolve: Resolver) -> bytes:
    """Assemble the instructions of one typed line for `address`. Raises `AssemblyError`."""
    if "\n" in line or any(part.strip().startswith(".") for part in line.split(";")):
        raise AssemblyError("one line of instructions is taken, and no directives", line)
    with _Child(facts, address, line) as child:
        code = _assemble(facts, line, resolve, child.assemble, facts.engine.ks_prelude).code
    if not code:
        raise AssemblyError("there is no instruction", line)
    return code


def typed_values(line: str, resolve: Resolver) -> set[int] | None:
    """The numbers and addresses in a typed line, sums of them evaluated.

    None where it counts from its own place, by `.` or `$`.
    """
    found = set()
    for each in _SUM.findall(line):
        total, sign = 0, 1
        for term in re.findall(r"[.\w$]+|[+-]", each):
            if term in ("+", "-"):
                sign = 1 if term == "+" else -1
                continue
            if term in (".", "$"):
                return None
            try:
                value: int | None = int(term, 0)
            except ValueError:
                value = resolve(term)
            if value is None:
                break
            total += sign * value
        else:
            found.add(total)
    return found


class _Child:
    """Keystone in a process of its own, for text that may never end."""

    def __init__(self, facts: Facts, address: int, source: str) -> None:
        self._request = [facts.engine.ks_arch, facts.engine.ks_mode]
        self._address = address
        self._source = source
        self._process = subprocess.Popen(
            [sys.executable, str(Path(keystone_child.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def assemble(self, text: str, lenient: bool) -> Answer:
        """As `assemble_once`; raises `AssemblyError` when no answer comes."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps([*self._request, text, self._address, lenient]) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise AssemblyError("the assembler has crashed", self._source) from None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            line = stdout.readline() if selector.select(PATIENCE) else None
        if not line:
            reason = "does not come to an end with" if line is None else "has crashed on"
            raise AssemblyError(f"the assembler {reason} {self._source.strip()!r}", self._source)
        code, error, externals = json.loads(line)
        return Answer(bytes.fromhex(code), error, externals)


def _assemble(
    facts: Facts, source: str, resolve: Resolver, assembler: _Assembler, prelude: str = ""
) -> EntryCode:
    """Assemble `source` with its labels and symbols, behind the directives of `prelude`."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    if not text.isascii() or "\0" in text:
        raise AssemblyError("the source is not plain ASCII", source)
    exported = [match["name"] for match in _GLOBL.finditer(text)]
    text = _DECIMAL.sub(lambda match: hex(int(match[0])), _GLOBL.sub("", text))
    if facts.engine.ks_registers:
        plain = rf"(?<![\w.$%])({facts.engine.ks_registers})(?![\w.$])"
        text = re.sub(plain, lambda match: facts.engine.ks_prefix + match[0], text)
    externals = assembler(f"{prelude}{_START}: {text}", True).externals
    text = _with_numbers(text, externals, resolve)
    if prelude and facts.engine.ks_branches:
        text = ";".join(_near_branch(facts, part) for part in text.split(";"))
    offsets = "".join(f"\n.long {name} - {_START}" for name in exported)
    answer = assembler(f"{prelude}{_START}: {text}{offsets}", False)
    if answer.error:
        raise _error(text, answer.error, assembler)
    size = len(answer.code) - 4 * len(exported)
    return EntryCode(
        answer.code[:size],
        {
            name: _integer(answer.code[size + 4 * row : size + 4 * row + 4], facts)
            for row, name in enumerate(exported)
        },
    )


def _near_branch(facts: Facts, line: str) -> str:
    """`line` with the target of a branch cut to the bits the assembler takes; who typed it checks.

    The branch goes where it should if that is in reach, and elsewhere if not.
    """
    match = re.fullmatch(
        rf"(?P<branch>\s*(?:{facts.engine.ks_branches})\s(?:.*,)?)(?P<target>[^,]+)", line
    )
    if match is None:
        return line
    values = typed_values(match["target"], lambda name: None)
    if not values or len(values) != 1:
        return line
    bits = facts.engine.ks_branch_bits
    low = values.pop() % (1 << bits)
    low -= (low >> (bits - 1)) << bits
    return f"{match['branch']} {'-' if low < 0 else ''}{abs(low):#x}"


def _integer(raw: bytes, facts: Facts) -> int:
    return int.from_bytes(raw, "little" if facts.byteorder == "little" else "big")


def _with_numbers(text: str, externals: list[str], resolve: Resolver) -> str:
    """The source with the addresses of external symbols in their place."""
    for name in dict.fromkeys(externals):
        word = rf"(?<![\w.$]){re.escape(name)}(?![\w.$])"
        value = resolve(name)
        if value is None:
            place = re.search(word, text)
            line = text.count("\n", 0, place.start()) + 1 if place and "\n" in text else 0
            raise AssemblyError(f"symbol {name} is not defined", text, line)
        text = re.sub(word, hex(value), text)
    return text


def _error(text: str, reason: str, assembler: _Assembler) -> AssemblyError:
    """What is wrong with `text`, and in which line: the end of its shortest bad beginning."""
    lines = text.split("\n")
    if len(lines) == 1:
        return AssemblyError(f"{reason}: {text.strip()}", text)
    number = next(
        (
            count
            for count in range(1, len(lines) + 1)
            if assembler("\n".join(lines[:count]), True).error
        ),
        len(lines),
    )
    return AssemblyError(f"{reason}: {lines[number - 1].strip()}", text, number)
