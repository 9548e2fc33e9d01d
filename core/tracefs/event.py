"""What every event has that can be switched on, whoever writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an event as it lies in the ring buffer; offset and size in bytes."""

    kind: str
    """Its type, in C."""
    name: str
    offset: int
    size: int
    signed: bool = False


COMMON = (
    Field("unsigned short", "common_type", 0, 2),
    Field("unsigned char", "common_flags", 2, 1),
    Field("unsigned char", "common_preempt_count", 3, 1),
    Field("int", "common_pid", 4, 4, True),
)
"""What all events begin with: `struct trace_entry`."""

COMMON_SIZE = 8


class TraceEvent(Protocol):
    """An event of the directory events/."""

    @property
    def group(self) -> str:
        """The directory it is in."""
        ...

    @property
    def name(self) -> str:
        """Its own directory."""
        ...

    @property
    def number(self) -> int:
        """The type of its events."""
        ...

    @property
    def on(self) -> bool:
        """Whether it is written."""
        ...

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, without those of `COMMON`."""
        ...

    @property
    def print_fmt(self) -> str:
        """How it is printed, in C."""
        ...

    def switch(self, on: bool) -> None:
        """Have it written, or not. Raises `DynftraceError`."""
        ...


def format_text(event: TraceEvent) -> str:
    """The file format of an event: name, number, fields, how they are printed."""
    return "\n".join(
        [
            *(f"name: {event.name}", f"ID: {event.number}", "format:"),
            *_lines(COMMON),
            "",
            *_lines(event.fields),
            *("", f"print fmt: {event.print_fmt}", ""),
        ]
    )


def _lines(fields: Iterable[Field]) -> list[str]:
    return [
        f"\tfield:{each.kind} {each.name};\toffset:{each.offset};\tsize:{each.size};"
        f"\tsigned:{int(each.signed)};"
        for each in fields
    ]
