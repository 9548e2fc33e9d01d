"""Fields of trace events: where they are in an event, and their values.

An event starts with `struct trace_entry`, whose fields are `COMMON`. Source: the format files of
Documentation/trace/events.rst.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Layout:
    """How a guest stores numbers."""

    byteorder: str
    """`little` or `big`."""
    pointer_size: int


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

    @cached_property
    def plain_name(self) -> str:
        """The name without the length of an array."""
        return self.name.partition("[")[0]

    @cached_property
    def length(self) -> int | None:
        """Number of elements of an array; None for any other field."""
        match = re.search(r"\[(\d+)\]", self.name)
        return None if match is None else int(match[1])

    @property
    def dynamic(self) -> bool:
        """Whether the field says where a string or an array is (`__data_loc`)."""
        return self.kind.startswith("__data_loc")

    @property
    def is_string(self) -> bool:
        """Whether its value is a text."""
        return "char" in self.kind and (self.dynamic or self.length is not None)

    def value(self, record: bytes, layout: Layout) -> int | str | Sequence[int]:
        """Return the value in the event `record`; zeros for what the event is too short for."""
        order, start, size = layout.byteorder, self.offset, self.size
        if self.dynamic:
            where = _number(record[start : start + 4], order, False)
            start, size = where & 0xFFFF, where >> 16
        raw = record[start : start + size]
        if self.is_string:
            return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
        if self.length is None and not self.dynamic:
            return _number(raw, order, self.signed)
        each = max(size // (self.length or size or 1), 1)
        return [_number(raw[at : at + each], order, self.signed) for at in range(0, len(raw), each)]


def _number(raw: bytes, byteorder: str, signed: bool) -> int:
    return int.from_bytes(raw, "little" if byteorder == "little" else "big", signed=signed)


COMMON = (
    Field("unsigned short", "common_type", 0, 2),
    Field("unsigned char", "common_flags", 2, 1),
    Field("unsigned char", "common_preempt_count", 3, 1),
    Field("int", "common_pid", 4, 4, True),
)
"""The fields at the start of every event: `struct trace_entry`."""

COMMON_SIZE = 8
