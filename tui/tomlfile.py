"""TOML files that people write: what is wrong with one is said with its line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..core.errors import UsageError

_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_END = " (at end of document)"


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The table in `path`, and its text; no file is an empty one.

    Raises `UsageError` with the path, and the line where it has one.
    """
    # A folder that may not be entered is none of the user's, as after su.
    if not os.path.exists(path):
        return {}, ""
    # Here, since most have no such file.
    import tomllib

    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    try:
        return tomllib.loads(text), text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}{_located(str(error), text)}") from error


def _located(reason: str, text: str) -> str:
    """`:LINE: reason` of what the parser says, where it says where."""
    if place := _PLACE.search(reason):
        return f":{place[1]}: {reason[: place.start()]}"
    if reason.endswith(_END):
        return f":{text.count(chr(10)) + 1}: {reason.removesuffix(_END)}"
    return f": {reason}"


def line_of(text: str, *keys: str) -> int:
    """The line, from 1, where the value behind `keys`, table by table, first stands in `text`.

    A document is one up to the end of any statement: the value's statement begins behind
    the last end without it.
    """
    import tomllib

    lines = text.replace("\r\n", "\n").split("\n")
    without = 0
    for end in range(1, len(lines)):
        try:
            table: object = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        if table is not None:
            break
        without = end
    return without + 1
