"""Fields of trace events: their places in an event, and their declarations.

An event starts with `struct trace_entry`, whose fields are `COMMON`. Source: the format files of
Documentation/trace/events.rst, and f_show() in kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_FIELD = re.compile(
    r"\s*field:(?P<declaration>[^;]{1,256});\s*offset:(?P<offset>\d{1,9});"
    r"\s*size:(?P<size>\d{1,9});(?:\s*signed:(?P<signed>\d);)?",
    re.ASCII,
)
_DECLARATION = re.compile(r"(?P<kind>.*?)\s*\b(?P<name>\w+)\s*(?P<array>\[[^\]]*\])?", re.ASCII)
_DYNAMIC = re.compile(r"__(data|rel)_loc\s+", re.ASCII)

_SIZES = {
    **dict.fromkeys(("char", "u8", "s8", "__u8", "__s8", "uint8_t", "int8_t", "bool"), 1),
    **dict.fromkeys(("short", "u16", "s16", "__u16", "__s16", "uint16_t", "int16_t"), 2),
    **dict.fromkeys(("__le16", "__be16", "umode_t"), 2),
    **dict.fromkeys(("int", "unsigned", "signed", "u32", "s32", "__u32", "__s32"), 4),
    **dict.fromkeys(("uint32_t", "int32_t", "pid_t", "gfp_t", "dev_t", "__le32", "__be32"), 4),
    **dict.fromkeys(("u64", "s64", "__u64", "__s64", "uint64_t", "int64_t", "loff_t"), 8),
    **dict.fromkeys(("sector_t", "ktime_t", "__le64", "__be64"), 8),
}
_LONGS = ("long", "size_t", "ssize_t", "uintptr_t", "intptr_t")

TYPES = frozenset((*_SIZES, *_LONGS))
"""Last words of the types whose size is known."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kernel stores numbers."""

    byteorder: str
    """`little` or `big`."""
    pointer_size: int

    def number(self, raw: bytes, signed: bool = False) -> int:
        """Return the number stored in `raw`; 0 for no bytes."""
        order = self.byteorder
        return int.from_bytes(raw, "little" if order == "little" else "big", signed=signed)


@dataclass(frozen=True)
class Field:
    """A field of an event in the ring buffer; offset and size are in bytes."""

    kind: str
    """Its C type."""
    name: str
    """Its name, and the length of an array: `args[6]`."""
    offset: int
    size: int
    signed: bool = False

    @classmethod
    def parse(cls, line: str) -> Field | None:
        """Return the field that a line of a file `format` describes; None for other lines."""
        found = _FIELD.match(line)
        if found is None:
            return None
        parts = _DECLARATION.fullmatch(found["declaration"].strip())
        if parts is None:
            return None
        return cls(
            kind=parts["kind"],
            name=parts["name"] + (parts["array"] or ""),
            offset=int(found["offset"]),
            size=int(found["size"]),
            signed=found["signed"] == "1",
        )

    @cached_property
    def plain_name(self) -> str:
        """The name without the length of an array."""
        return self.name.partition("[")[0]

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.offset + self.size

    @cached_property
    def array(self) -> bool:
        """Whether it is an array, in the event or elsewhere."""
        return "[" in self.name or "[" in self.kind

    @cached_property
    def length(self) -> int | None:
        """Number of elements of an array; None if unknown, and for any other field."""
        match = re.search(r"\[(\d{1,9})\]", self.name, re.ASCII)
        return None if match is None else int(match[1])

    @cached_property
    def dynamic(self) -> str:
        """Base of the offset of an array elsewhere in the event; "" for any other field.

        "data" is the start of the event (`__data_loc`), "rel" the end of the field (`__rel_loc`).
        """
        found = _DYNAMIC.match(self.kind)
        return "" if found is None else found[1]

    @cached_property
    def is_string(self) -> bool:
        """Whether filters and histograms treat it as a text (`filter_assign_type`)."""
        return "char" in self.kind and self.array

    @cached_property
    def element_kind(self) -> str:
        """The C type of an element of an array, or of the field itself."""
        return _DYNAMIC.sub("", self.kind).partition("[")[0].strip()

    def element(self, long: int) -> int:
        """Return the bytes of an element of an array, or of the field; a long has `long` bytes."""
        if not (self.array or self.dynamic):
            return self.size
        if self.length and self.size >= self.length:
            return self.size // self.length
        return size_of(self.element_kind, long)


def size_of(kind: str, long: int) -> int:
    """Return the bytes of a C type, if a long has `long` bytes; 1 for an unknown type."""
    words = [word for word in kind.split() if word not in ("const", "volatile")]
    if "*" not in kind and words.count("long") > 1:
        return 8
    if "*" in kind or "long" in words or (words and words[-1] in _LONGS):
        return long
    return _SIZES.get(words[-1], 1) if words else 1


COMMON = (
    Field("unsigned short", "common_type", 0, 2),
    Field("unsigned char", "common_flags", 2, 1),
    Field("unsigned char", "common_preempt_count", 3, 1),
    Field("int", "common_pid", 4, 4, True),
)
"""The fields at the start of every event: `struct trace_entry`."""

COMMON_SIZE = 8
