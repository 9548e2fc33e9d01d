"""Assembly to bytes: single lines for `poke`, and an entry.S that was not built with the images.

Keystone is loaded when it is first needed, so nothing else depends on it. Version 0.9.2 leaves
five things to its caller:

- On some architectures it places a call of an external symbol four bytes off. So a first pass
  finds the external symbols, with a nearby address for each, and the second pass gets numbers
  in their place.
- It never sets the radix of numbers without a prefix: `16` means 16 or 22, depending on
  uninitialized memory. So decimal numbers are rewritten in hexadecimal.
- It does not report the addresses of labels. So a line `.long label - start` is appended for
  each exported label, and the assembled values are read and cut off.
- If it knows registers with a prefix only, it drops an instruction that names one without. So
  the prefix is added.
- It makes 0 of `%hi(label)` and `%lo(label)`, and a load of some jumps to a label (`ks_jumps`). So
  both get numbers; those of labels are found by an earlier pass.
"""

from __future__ import annotations

import json
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..arch import EntryCode
from ..errors import AssemblyError, NoAssemblerError
from ..facts import Facts
from . import error_column, keystone_child
from .keystone_child import MISSING, Answer, assemble_once

Resolver = Callable[[str], int | None]
"""Returns the address of a symbol, or None if it is unknown."""

PATIENCE = 30.0
"""Limit for a typed line in seconds of the host; the child has a limit of CPU time, too."""

_Assembler = Callable[[str, bool], Answer]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_GLOBL = re.compile(r"^[ \t]*\.glob[a]?l[ \t]+(?P<name>[.\w$]+)[ \t]*$", re.MULTILINE)
_DECIMAL = re.compile(r"(?<![\w.$%])[1-9][0-9]+(?!\w)")
_ENDLESS = re.compile(r"\w{200}")
"""Longer than any number or name: numbers of thousands of digits cannot be converted."""
_BEGINNING = re.compile(r"[^\W\d]|\{")
"""First character of an instruction. Keystone hangs on many lines that begin otherwise."""
_SUM = re.compile(r"[.\w$]+(?:\s*[+-]\s*[.\w$]+)*")
_START = "assembly_start"
_HALF = re.compile(r"%(?P<half>hi|lo)\((?P<name>[.\w$]+)\)")
"""Half of a 32-bit address; the lower one is signed."""


def assemble(facts: Facts, source: str, address: int, resolve: Resolver) -> EntryCode:
    """Assemble `source`, which may have C comments, for `address`.

    Its `.globl` lines name the exported labels. Raises `AssemblyError`, with the line if it is
    known, and `NoAssemblerError`.
    """

    def here(text: str, lenient: bool) -> Answer:
        return assemble_once(facts.engine.ks_arch, facts.engine.ks_mode, text, address, lenient)

    return _assemble(facts, source, address, resolve, here)


def assemble_line(facts: Facts, line: str, address: int, resolve: Resolver) -> bytes:
    """Assemble the instructions of one typed line for `address`.

    Raises `AssemblyError`, with the column of the mistake if it is known, and
    `NoAssemblerError`.
    """
    if "\n" in line:
        raise AssemblyError("write one line of instructions", line)
    if endless := _ENDLESS.search(line):
        raise AssemblyError("a word is too long", line, column=endless.start())
    for each in error_column.instructions(line):
        if each.text.startswith("."):
            raise AssemblyError("directives are not allowed", line, column=each.column)
        if not _BEGINNING.match(each.text):
            raise AssemblyError("not an instruction", line, column=each.column)
    if find_spec("keystone") is None:
        raise NoAssemblerError(line)
    with _Child(facts, address, line) as child:
        try:
            prelude = facts.engine.ks_prelude
            code = _assemble(facts, line, address, resolve, child.assemble, prelude).code
        except NoAssemblerError:
            raise
        except AssemblyError as error:
            if error.column is not None or child.lost:
                raise
            raise _placed(facts, line, resolve, child, error) from error
        # Keystone sometimes drops an invalid instruction without an error.
        alone = error_column.instructions(line)
        if not code or len(alone) > 1:
            unknown = AssemblyError("not an instruction", line)
            placed = _placed(facts, line, resolve, child, unknown)
            if not code or placed is not unknown:
                raise placed
    return code


def _placed(
    facts: Facts, line: str, resolve: Resolver, child: _Child, error: AssemblyError
) -> AssemblyError:
    """Return `error` with the column in `line`, if it can be found."""
    labels = set(re.findall(r"([.\w$]+):", line))

    def trial(text: str) -> str:
        """Return why `text` is not an instruction, or nothing if it is."""

        def near(name: str) -> int | None:
            return child.address if name in labels else resolve(name)

        try:
            prelude = facts.engine.ks_prelude
            made = _assemble(facts, text, child.address, near, child.assemble, prelude)
        except AssemblyError as refused:
            if child.lost:
                raise
            return refused.reason.partition(":")[0]
        return "" if made.code else "no code"

    try:
        found = error_column.fault(line, facts, trial)
    except AssemblyError:
        return error  # out of time
    if found is None:
        return error
    return AssemblyError(found.reason, line, column=found.column)


def typed_values(line: str, resolve: Resolver) -> set[int] | None:
    """Return the numbers and addresses in a typed line, with sums evaluated.

    Return None if the line refers to its own address, by `.` or `$`.
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
    """Keystone in its own process, for text on which it may hang or crash."""

    def __init__(self, facts: Facts, address: int, source: str) -> None:
        """Start the process. Raises `AssemblyError`."""
        self._request = [facts.engine.ks_arch, facts.engine.ks_mode]
        self._source = source
        self._until = time.monotonic() + PATIENCE
        self.address = address
        self.lost = False
        """Whether it has stopped answering."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(keystone_child.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                process_group=0,  # ctrl+c at the terminal is for the parent only
            )
        except OSError as error:
            reason = f"the assembler does not start: {error.strerror or error}"
            raise AssemblyError(reason, source) from error

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def assemble(self, text: str, lenient: bool) -> Answer:
        """Like `assemble_once`. Raises `AssemblyError` if there is no answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps([*self._request, text, self.address, lenient]) + "\n")
            stdin.flush()
        except BrokenPipeError:
            self.lost = True
            raise AssemblyError("the assembler has crashed", self._source) from None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            left = max(self._until - time.monotonic(), 0)
            line = stdout.readline() if selector.select(left) else None
        if not line:
            self.lost = True
            if line is None:
                self._process.kill()
            ended = self._process.wait()
            reason = "hangs on" if ended in (-signal.SIGKILL, -signal.SIGXCPU) else "has crashed on"
            raise AssemblyError(f"the assembler {reason} {self._source.strip()!r}", self._source)
        code, error, externals = json.loads(line)
        return Answer(bytes.fromhex(code), error, externals)


def _assemble(
    facts: Facts,
    source: str,
    address: int,
    resolve: Resolver,
    assembler: _Assembler,
    prelude: str = "",
) -> EntryCode:
    """Assemble `source` with its labels and symbols, after the directives of `prelude`."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    if not text.isascii() or "\0" in text:
        column = next(
            (at for at, mark in enumerate(source) if not mark.isascii() or mark == "\0"), None
        )
        place = None if "\n" in source else column
        raise AssemblyError("the source contains non-ASCII characters", source, column=place)
    exported = [match["name"] for match in _GLOBL.finditer(text)]
    text = _DECIMAL.sub(lambda match: hex(int(match[0])), _GLOBL.sub("", text))
    if facts.engine.ks_registers:
        plain = rf"(?<![\w.$%])({facts.engine.ks_registers})(?![\w.$])"
        text = re.sub(plain, lambda match: facts.engine.ks_prefix + match[0], text)
    if facts.engine.ks_jumps:
        text = _with_addresses(facts, text, address, resolve, assembler, prelude, source)
    first = assembler(f"{prelude}{_START}: {text}", True)
    if first.error == MISSING:
        raise NoAssemblerError(source)
    text = _with_numbers(text, first.externals, resolve, source)
    if prelude and facts.engine.ks_branches:
        text = ";".join(_near_branch(facts, part) for part in text.split(";"))
    made = _with_offsets(facts, f"{prelude}{_START}: {text}", exported, assembler, False)
    if isinstance(made, str):
        raise _error(text, made, assembler)
    return made


def _with_offsets(
    facts: Facts, text: str, labels: Sequence[str], assembler: _Assembler, lenient: bool
) -> EntryCode | str:
    """Assemble `text`, and return its code with the offsets of `labels`, or an error."""
    offsets = "".join(f"\n.long {name} - {_START}" for name in labels)
    answer = assembler(f"{text}{offsets}", lenient)
    if answer.error:
        return answer.error
    size = len(answer.code) - 4 * len(labels)
    return EntryCode(
        answer.code[:size],
        {
            name: _integer(answer.code[size + 4 * row : size + 4 * row + 4], facts)
            for row, name in enumerate(labels)
        },
    )


def _with_addresses(
    facts: Facts,
    text: str,
    address: int,
    resolve: Resolver,
    assembler: _Assembler,
    prelude: str,
    source: str,
) -> str:
    """Return `text` for `address` with numbers for the halves of addresses and jumps to labels.

    Raises `AssemblyError` for half of an unknown symbol. An error in `text` is left to the next
    pass.
    """
    jump = re.compile(
        rf"(?<![\w.$])(?P<jump>{facts.engine.ks_jumps})(?P<name>\s+[A-Za-z_.$][\w.$]*)"
    )
    defined = set(re.findall(r"(?:^|[;\n])\s*([.\w$]+)\s*:", text))
    halves = dict.fromkeys(match["name"] for match in _HALF.finditer(text))
    jumps = dict.fromkeys(match["name"].strip() for match in jump.finditer(text))
    labels = [name for name in (halves | jumps) if name in defined]
    blank = jump.sub(lambda match: f"{match['jump']} {address:#x}", _HALF.sub("0", text))
    made = _with_offsets(facts, f"{prelude}{_START}: {blank}", labels, assembler, True)
    if isinstance(made, str):
        return text
    values = {name: address + offset for name, offset in made.symbols.items()}
    for name in halves:
        if name not in values:
            numbers = _with_numbers(name, [name], resolve, source)
            values[name] = int(numbers, 0)

    def half(match: re.Match[str]) -> str:
        value = values[match["name"]]
        low = (value & 0xFFFF) - (value >> 15 << 16 & 0x1_0000)
        high = (value - low) >> 16 & 0xFFFF
        number = high if match["half"] == "hi" else low
        return f"{'-' if number < 0 else ''}{abs(number):#x}"

    def direct(match: re.Match[str]) -> str:
        value = values.get(match["name"].strip())
        return match[0] if value is None else f"{match['jump']} {value:#x}"

    return jump.sub(direct, _HALF.sub(half, text))


def _near_branch(facts: Facts, line: str) -> str:
    """Return `line` with the target of a branch truncated to the bits the assembler takes.

    The branch is right if its target is in reach; the caller checks that.
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


def _with_numbers(text: str, externals: list[str], resolve: Resolver, source: str) -> str:
    """Return the `text` of `source` with addresses in place of external symbols."""
    for name in dict.fromkeys(externals):
        word = rf"(?<![\w.$]){re.escape(name)}(?![\w.$])"
        value = resolve(name)
        if value is None:
            place = re.search(word, text)
            line = text.count("\n", 0, place.start()) + 1 if place and "\n" in text else 0
            column = None if line else error_column.symbol(source, name)
            raise AssemblyError(f"symbol {name} is not defined", source, line, column)
        text = re.sub(word, hex(value), text)
    return text


def _error(text: str, reason: str, assembler: _Assembler) -> AssemblyError:
    """Return the error in `text`, with its line: the last of the shortest prefix that fails."""
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
