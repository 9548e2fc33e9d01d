"""TOML files written by the user: errors name the file and the line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ...core.errors import UsageError

_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_END = " (at end of document)"

MOST_PARTS = 32
"""Largest number of parts of a dotted key. The parser's memory grows with its square."""

_DOTTED = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){{{MOST_PARTS}}}""")


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Return the table in `path` and its text; both are empty if the file does not exist.

    Raises `UsageError` with the path, and with the line if it is known.
    """
    # Also False in a folder without permission. After su, that is another user's folder.
    if not os.path.exists(path):
        return {}, ""
    # Imported here because most users have no such file.
    import tomllib

    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    if dotted := _DOTTED.search(text):
        line = text.count("\n", 0, dotted.start()) + 1
        raise UsageError(f"{path}:{line}: a key has more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text), text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}{_located(str(error), text)}") from error


def _located(reason: str, text: str) -> str:
    """Return a message of the parser as `:LINE: REASON`, or `: REASON` if it has no line."""
    if place := _PLACE.search(reason):
        return f":{place[1]}: {reason[: place.start()]}"
    if reason.endswith(_END):
        return f":{text.count(chr(10)) + 1}: {reason.removesuffix(_END)}"
    return f": {reason}"


def line_of(text: str, *keys: str) -> int:
    """Return the line, from 1, at which `text` sets the value at `keys`.

    `text` is valid TOML up to the end of each statement. So the value's statement begins
    after the last such end whose document lacks the value.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    without, beyond = 0, len(lines)  # ends of statements before and after the value is set
    while beyond - without > 1:
        middle = (without + beyond) // 2
        end, there = _next_end(lines, middle, beyond, keys)
        if there is False:
            without = end
        else:
            beyond = middle
    return without + 1


def _next_end(
    lines: list[str], first: int, beyond: int, keys: tuple[str, ...]
) -> tuple[int, bool | None]:
    """Return the first number of lines from `first` that are valid TOML, and whether they set
    the value at `keys`; None for the latter if no number below `beyond` is valid.
    """
    import tomllib

    for end in range(first, beyond):
        try:
            table: object = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        return end, table is not None
    return beyond, None
