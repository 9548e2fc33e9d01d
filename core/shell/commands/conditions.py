"""Commands whose result is their status: true, false, test and its other name `[`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ...tracefs.tree import File
from ..command import Argument, Arguments, Command, Context, UsageMistake, number

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def true(context: Context, arguments: Arguments) -> None:
    """Succeed."""


def false(context: Context, arguments: Arguments) -> None:
    """Fail."""
    context.status = 1


def test(context: Context, arguments: Arguments) -> None:
    """Succeed if the condition holds."""
    context.status = int(not _holds(context, [word.text for word in arguments]))


def bracket(context: Context, arguments: Arguments) -> None:
    """Succeed if the condition up to the closing bracket holds."""
    if not arguments or arguments[-1].text != "]":
        raise UsageMistake("missing ']'")
    test(context, arguments[:-1])


def _holds(context: Context, words: Sequence[str]) -> bool:
    tree, absolute = context.boot.tracefs, context.directory.absolute
    match words:
        case []:
            return False
        case [text]:
            return text != ""
        case ["!", *rest]:
            return not _holds(context, rest)
        case ["-n", text]:
            return text != ""
        case ["-z", text]:
            return text == ""
        case ["-e" | "-r" | "-w", path]:
            return tree.exists(absolute(path))
        case ["-f", path]:
            return tree.exists(absolute(path)) and isinstance(tree.node(absolute(path)), File)
        case ["-d", path]:
            return tree.is_dir(absolute(path))
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, by, right] if by in _NUMBERS:
            return _NUMBERS[by](_integer(left), _integer(right))
    raise UsageMistake(f"'{' '.join(words)}' is not a condition")


def _integer(text: str) -> int:
    return -number(text[1:], "an operand") if text[:1] == "-" else number(text, "an operand")


_DETAILS = (
    "-e FILE exists, -f is a file, -d is a directory; -n TEXT is not empty, -z is\n"
    "empty; A = B, A != B for texts; -eq -ne -lt -le -gt -ge for numbers; ! negates."
)

COMMANDS = (
    Command("true", "", "do nothing, with status 0", true),
    Command("false", "", "do nothing, with status 1", false),
    Command("test", "CONDITION", "check a condition", test, Argument.FILE, _DETAILS),
    Command("[", "CONDITION ]", "check a condition", bracket, Argument.FILE, _DETAILS),
)
