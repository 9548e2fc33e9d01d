"""The interface of all events in events/, and the text of their format files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..events.fields import COMMON, COMMON_SIZE, Field

if TYPE_CHECKING:
    from .events.eventfile import EventFile
    from .events.filters import EventFilter
    from .events.triggers import EventTriggers

__all__ = ["COMMON", "COMMON_SIZE", "Described", "Field", "TraceEvent", "format_text"]


class TraceEvent(Protocol):
    """An event in the directory events/."""

    @property
    def group(self) -> str:
        """Name of the group's directory."""
        ...

    @property
    def name(self) -> str:
        """Name of the event's directory."""
        ...

    @property
    def number(self) -> int:
        """Number of its type in the ring buffer."""
        ...

    @property
    def on(self) -> bool:
        """Whether the event is written."""
        ...

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, without the fields in `COMMON`."""
        ...

    @property
    def print_fmt(self) -> str:
        """How the event is printed, in C."""
        ...

    @property
    def file(self) -> EventFile:
        """Its switches."""
        ...

    @property
    def filter(self) -> EventFilter:
        """Its filter."""
        ...

    @property
    def triggers(self) -> EventTriggers:
        """Its triggers."""
        ...

    def switch(self, on: bool) -> None:
        """Switch the event on or off. Raises `DynftraceError`."""
        ...


class Described(Protocol):
    """An event, as far as its file format needs it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def number(self) -> int:
        """Number of its type in the ring buffer."""
        ...

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, without the fields in `COMMON`."""
        ...

    @property
    def print_fmt(self) -> str:
        """How the event is printed, in C."""
        ...


def format_text(event: Described) -> str:
    """Return the content of an event's file format."""
    return "\n".join(
        [
            *(f"name: {event.name}", f"ID: {int(event.number)}", "format:"),
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
