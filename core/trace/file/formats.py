"""The files `format` of events: where each field is in a record, and how it is printed.

Source: f_show() in kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FIELD = re.compile(
    r"^\s*field:(?P<declaration>[^;]*);\s*offset:(?P<offset>\d{1,9});\s*size:(?P<size>\d{1,9});"
    r"(?:\s*signed:(?P<signed>\d);)?",
    re.ASCII,
)
_DECLARATION = re.compile(
    r"(?P<kind>.*?)\s*\b(?P<name>\w+)\s*(?P<array>\[[^\]]*\])?\s*$", re.ASCII | re.DOTALL
)
_DYNAMIC = re.compile(r"__(data|rel)_loc\s+", re.ASCII)

SIZES = {
    **dict.fromkeys(("char", "u8", "s8", "__u8", "__s8", "uint8_t", "int8_t", "bool"), 1),
    **dict.fromkeys(("short", "u16", "s16", "__u16", "__s16", "uint16_t", "int16_t"), 2),
    **dict.fromkeys(("__le16", "__be16", "umode_t"), 2),
    **dict.fromkeys(("int", "unsigned", "signed", "u32", "s32", "__u32", "__s32"), 4),
    **dict.fromkeys(("uint32_t", "int32_t", "pid_t", "gfp_t", "dev_t", "__le32", "__be32"), 4),
    **dict.fromkeys(("u64", "s64", "__u64", "__s64", "uint64_t", "int64_t", "loff_t"), 8),
    **dict.fromkeys(("sector_t", "ktime_t", "__le64", "__be64"), 8),
}
"""Sizes of types by name, in bytes; those of a `long` depend on the kernel."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field; offset and size are in bytes. A `dynamic` field is the place of its data: `data`
    counts from the start of the record, `rel` from the end of the field."""

    name: str
    kind: str
    offset: int
    size: int
    signed: bool
    array: bool
    dynamic: str = ""

    @property
    def end(self) -> int:
        """Offset just after it."""
        return self.offset + self.size

    def element(self, long: int) -> int:
        """Return the bytes of an element of an array, or of the field itself."""
        if not (self.array or self.dynamic):
            return self.size
        return size_of(self.kind, long)


def size_of(kind: str, long: int) -> int:
    """Return the bytes of a C type; 1 for an unknown one."""
    if "*" in kind or "long" in kind.split():
        return 8 if kind.split().count("long") > 1 else long
    words = [word for word in kind.split() if word not in ("const", "volatile")]
    if words and words[0] in ("unsigned", "signed") and len(words) > 1:
        words = words[1:]
    if words and words[-1] in ("size_t", "ssize_t"):
        return long
    return SIZES.get(words[-1], 1) if words else 1


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The layout of one event."""

    system: str
    name: str
    number: int
    fields: Mapping[str, Field]
    print_fmt: str


def parse(system: str, text: str) -> EventFormat | None:
    """Return the format in `text`; None if that is not one."""
    name, number, print_fmt = "", -1, ""
    fields: dict[str, Field] = {}
    head, _, rest = text.partition("print fmt:")
    for line in head.splitlines():
        if line.startswith("name:"):
            name = line[5:].strip()
        elif line.startswith("ID:"):
            digits = line[3:].strip()
            number = int(digits) if digits.isascii() and digits.isdigit() else -1
        elif (field := _field(line)) is not None:
            fields[field.name] = field
    print_fmt = rest.strip()
    if not name or not 0 <= number < 1 << 16:
        return None
    return EventFormat(system, name, number, fields, print_fmt)


def _field(line: str) -> Field | None:
    found = _FIELD.match(line)
    if found is None:
        return None
    declaration = found["declaration"].strip()
    dynamic = _DYNAMIC.match(declaration)
    if dynamic is not None:
        declaration = declaration[dynamic.end() :]
    # A dynamic array has its brackets after the type: `__data_loc char[] name`.
    declaration, brackets = re.subn(r"\[\]\s+(?=\w+$)", " ", declaration)
    parts = _DECLARATION.fullmatch(declaration)
    if parts is None:
        return None
    return Field(
        name=parts["name"],
        kind=parts["kind"].strip(),
        offset=int(found["offset"]),
        size=int(found["size"]),
        signed=found["signed"] == "1",
        array=bool(parts["array"] or brackets),
        dynamic=dynamic[1] if dynamic is not None else "",
    )


def by_number(texts: list[tuple[str, str]]) -> dict[int, EventFormat]:
    """Return the formats by the type of their events; what is not a format is left out."""
    found: dict[int, EventFormat] = {}
    for system, text in texts:
        each = parse(system, text)
        if each is not None:
            found.setdefault(each.number, each)
    return found
