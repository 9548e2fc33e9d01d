"""The column of the mistake in a typed line of assembly.

Keystone says that a source is wrong, but not where. So the instructions of the line are tried
one by one. In the first that Keystone refuses, the mnemonic is wrong if Keystone says so.
Otherwise each operand in turn is replaced by others: by its neighbours, by 0, by the stack
pointer. The operand whose replacement makes a valid instruction is the wrong one. If none or
several do, the error names all operands and points at the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..facts import Facts

Trial = Callable[[str], str]
"""Tries an instruction and returns the assembler's error, empty if there is none."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LABEL = re.compile(r"\s*(?:[.\w$]+:\s*)*")
_OPEN, _CLOSED = "([{", ")]}"
_NO_SUCH_MNEMONIC = "Invalid mnemonic"


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake and its column in the line as typed, from 0."""

    reason: str
    column: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line, without the blanks around it."""

    text: str
    column: int


def plain(line: str) -> str:
    """Return `line` with blanks for its comments, so that everything else keeps its column."""
    return _COMMENT.sub(lambda match: " " * len(match[0]), line)


def instructions(line: str) -> list[Piece]:
    """Return the instructions of a line, without labels."""
    found, column = [], 0
    for part in plain(line).split(";"):
        label = _LABEL.match(part)
        begin = label.end() if label else 0
        if text := part[begin:].rstrip():
            found.append(Piece(text, column + begin))
        column += len(part) + 1
    return found


def operands(instruction: Piece) -> list[Piece]:
    """Return the operands of an instruction: what commas outside of brackets separate."""
    text = instruction.text
    begin = len(text.split(None, 1)[0])
    ends, depth = [], 0
    for at in range(begin, len(text)):
        depth += (text[at] in _OPEN) - (text[at] in _CLOSED)
        if text[at] == "," and depth == 0:
            ends.append(at)
    found = []
    for end in (*ends, len(text)):
        part = text[begin:end]
        column = instruction.column + begin + len(part) - len(part.lstrip())
        found.append(Piece(part.strip(), column))
        begin = end + 1
    return found if len(found) > 1 or found[0].text else []


def symbol(line: str, name: str) -> int | None:
    """Return the column of the symbol `name` in the line, or None if it is not there."""
    place = re.search(rf"(?<![\w.$]){re.escape(name)}(?![\w.$])", plain(line))
    return None if place is None else place.start()


def target(line: str, row: int, count: int) -> int | None:
    """Return the column of the last operand of instruction `row`.

    Return None unless the line has `count` instructions.
    """
    found = instructions(line)
    if len(found) != count:
        return None
    given = operands(found[row])
    return given[-1].column if given else found[row].column


def fault(line: str, facts: Facts, trial: Trial) -> Fault | None:
    """Return the first mistake in `line`; None if each instruction alone is valid."""
    for each in instructions(line):
        against = trial(each.text)
        if against:
            return _in_instruction(each, against, facts, trial)
    return None


def _in_instruction(instruction: Piece, against: str, facts: Facts, trial: Trial) -> Fault:
    mnemonic, _, rest = instruction.text.partition(" ")
    if against == _NO_SUCH_MNEMONIC:
        # A prefix is an instruction by itself; the mnemonic follows it.
        begin = len(instruction.text) - len(rest.lstrip())
        if rest.strip() and not trial(mnemonic) and trial(rest) == _NO_SUCH_MNEMONIC:
            inner = Piece(rest.strip(), instruction.column + begin)
            return _in_instruction(inner, against, facts, trial)
        return Fault(f"unknown instruction '{mnemonic}'", instruction.column)
    given = operands(instruction)
    if not given:
        return Fault(f"'{mnemonic}' needs operands", instruction.column)
    wrong = [each for each in given if _mended(instruction, each, given, facts, trial)]
    if len(wrong) == 1:
        return Fault(f"wrong operand '{wrong[0].text}' of '{mnemonic}'", wrong[0].column)
    return Fault(f"wrong operands of '{mnemonic}'", given[0].column)


def _mended(
    instruction: Piece, operand: Piece, given: list[Piece], facts: Facts, trial: Trial
) -> bool:
    """Whether another operand in its place makes the instruction valid."""
    begin = operand.column - instruction.column
    before, after = instruction.text[:begin], instruction.text[begin + len(operand.text) :]
    others = dict.fromkeys((*(each.text for each in given), *_common(facts)))
    return any(
        not trial(before + other + after) for other in others if other and other != operand.text
    )


def _common(facts: Facts) -> Iterator[str]:
    """Yield operands that are valid for many instructions."""
    stack = facts.abi.sp.name
    yield from ("0", stack, f"[{stack}]", f"0({stack})")
