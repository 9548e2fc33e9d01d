"""The user's keys for the console's bindings: the table `[keys]` of a TOML file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from ...core.errors import UsageError
from ..files.toml import line_of, read_toml
from .keymap import GROUPS

_MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
_NAMES = {key.value for key in Keys} | {*KEY_NAME_REPLACEMENTS.values()}
_ASCII = {re.sub("[ -]", "_", unicodedata.name(chr(code)).lower()) for code in range(33, 127)}
"""Unicode names of the ASCII characters, as Textual writes them: `less_than_sign`."""


def read(path: Path) -> dict[str, str]:
    """Return each binding's id and its keys, separated by commas; empty without a file.

    Raises `UsageError` with path and line for invalid TOML, an unknown binding id, an
    unknown key, and a key that two bindings of one group share.
    """
    table, text = read_toml(path)
    keys = table.get("keys", {})
    if not isinstance(keys, dict):
        raise UsageError(f"{path}:{line_of(text, 'keys')}: keys must be a table")
    known = {binding.id or "" for group in GROUPS.values() for binding in group}
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for parts, value in _flat(keys):
        id = ".".join(parts)
        lines[id] = line_of(text, "keys", *parts)
        where = f"{path}:{lines[id]}"
        if id not in known:
            group = [each for each in sorted(known) if each.split(".")[0] == parts[0]]
            choices = ", ".join(group or sorted(known))
            raise UsageError(f"{where}: unknown binding {id} (choose from: {choices})")
        if not isinstance(value, str) or not value:
            raise UsageError(f'{where}: {id} must be the name of a key, such as "f6"')
        for name in value.split(","):
            if not is_key(name.strip()):
                raise UsageError(f"{where}: {id}: unknown key {name.strip()!r}")
        found[id] = value
    for one, other, key in _clashes(found):
        raise UsageError(f"{path}:{lines[one]}: {one} and {other} have the same key {key}")
    return found


def _flat(
    table: Mapping[str, object], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each value with its path: TOML reads `functions.toggle` as nested tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*before, name))
        else:
            yield (*before, name), value


def is_key(name: str) -> bool:
    """Return whether Textual knows the key `name`: `f5`, `ctrl+x`, `G`, `question_mark`."""
    *modifiers, key = name.split("+")
    if not set(modifiers) <= _MODIFIERS or not key:
        return False
    if len(key) == 1 or key in _NAMES or name in _NAMES or key in _ASCII:
        return True
    try:
        unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return False
    return True


def _clashes(found: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield pairs of bindings of one group that share a key; the first is set in the file."""
    for group in GROUPS.values():
        owner: dict[str, str] = {}
        for binding in sorted(group, key=lambda each: each.id in found):
            id = binding.id or ""
            for key in found.get(id, binding.key).split(","):
                other = owner.setdefault(key.strip(), id)
                if other != id and id in found:
                    yield id, other, key.strip()
