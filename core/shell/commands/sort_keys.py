"""Keys of `sort`: `-k 2`, `-k 2,2nr`, `-k 1.3`, as POSIX defines them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from ..command import UsageMistake

ORDERS = "bfgnr"
"""Letters that change how a key is compared; those of a key replace those of the command."""

_PLACE = r"([1-9][0-9]{0,8})(?:\.([0-9]{1,9}))?"
_KEY = re.compile(rf"{_PLACE}([{ORDERS}]*)(?:,{_PLACE}([{ORDERS}]*))?")
_FIELD = re.compile(r"[ \t]*[^ \t]+|[ \t]+$")
_NUMBER = re.compile(r"[ \t]*(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+))")
_FLOAT = re.compile(r"[ \t]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?)")


@dataclass(frozen=True, slots=True)
class Key:
    """A part of a line, from field and character to field and character, and its order."""

    order: str
    first: tuple[int, int] = (1, 1)
    last: tuple[int, int] | None = None
    """The last field and its last character, 0 for all of it; None: up to the end of the line."""
    separator: str | None = None
    """What ends a field; None: the change from other characters to blanks."""

    @classmethod
    def parse(cls, text: str, order: str, separator: str | None) -> Key:
        """Parse the argument of -k. Raises `UsageMistake`."""
        match = _KEY.fullmatch(text)
        if not match or match[2] == "0":
            raise UsageMistake(f"'{text}' is not a key such as 2, 2n, 2,3 or 1.4")
        own = match[3] + (match[6] or "")
        last = (int(match[4]), int(match[5] or 0)) if match[4] else None
        return cls(own or order, (int(match[1]), int(match[2] or 1)), last, separator)

    @property
    def reverse(self) -> bool:
        """Whether the greatest comes first."""
        return "r" in self.order

    def part(self, line: str) -> str:
        """Return what `line`, without its newline, is compared by."""
        fields = self._fields(line)
        begin = self._at(fields, line, self.first[0], self.first[1] - 1)
        if self.last is None:
            return line[begin:]
        number, characters = self.last
        if characters:
            return line[begin : self._at(fields, line, number, characters)]
        return line[begin : fields[number - 1][1] if number <= len(fields) else len(line)]

    def _fields(self, line: str) -> list[tuple[int, int]]:
        if self.separator is None:
            return [match.span() for match in _FIELD.finditer(line)]
        spans, at = [], 0
        for text in line.split(self.separator):
            spans.append((at, at + len(text)))
            at += len(text) + 1
        return spans

    def _at(self, fields: list[tuple[int, int]], line: str, number: int, characters: int) -> int:
        """Return the index in `line` that is `characters` after the start of a field."""
        if number > len(fields):
            return len(line)
        begin = fields[number - 1][0]
        if "b" in self.order:
            begin += len(line[begin:]) - len(line[begin:].lstrip(" \t"))
        return min(begin + characters, len(line))

    def value(self, line: str) -> Decimal | str:
        """Return the value that orders `line` among others; a number for -n and -g."""
        part = self.part(line)
        if "g" in self.order:
            found = _FLOAT.match(part)
            return Decimal(found[1]) if found else Decimal("-Infinity")
        if "n" in self.order:
            found = _NUMBER.match(part)
            return Decimal(found[1]) if found else Decimal(0)
        part = part.lstrip(" \t") if "b" in self.order else part
        return part.upper() if "f" in self.order else part


def keys_of(options: Mapping[str, str], keys: list[str]) -> list[Key]:
    """Return the keys of a command: those of -k, or the whole line. Raises `UsageMistake`."""
    order = "".join(each for each in ORDERS if each in options)
    return [Key.parse(text, order, options.get("t")) for text in keys] or [Key(order)]
