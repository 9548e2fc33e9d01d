"""The format of an event: its name, its fields, and how it is printed; and the files `format`.

The formats of the guest's own events are read from its memory (kernelevents.py), those of
recorded traces from the files that were recorded with them. Source: f_show() in
kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from .fields import COMMON, Field, Layout

_MOST_NUMBER = 0xFFFF


@dataclass(frozen=True)
class EventFormat:
    """The format of one event."""

    group: str
    """Its system, such as `sched`; `ftrace` for the tracers' own events."""
    name: str
    number: int
    """Type of the events in the ring buffer."""
    fields: tuple[Field, ...]
    """Its fields, without those in `common`."""
    print_fmt: str
    layout: Layout
    common: tuple[Field, ...] = COMMON
    """The fields at the start of every event."""
    shown_fmt: str = ""
    """The print format of the trace, if the kernel does not use `print_fmt` for it."""

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """All fields by their plain names."""
        return {each.plain_name: each for each in (*self.common, *self.fields)}


def parse_format(group: str, text: str, layout: Layout) -> EventFormat | None:
    """Return the format in `text`, the content of a file `format`; None if it is not one."""
    name, number = "", -1
    fields: dict[str, Field] = {}
    head, _, print_fmt = text.partition("print fmt:")
    for line in head.splitlines():
        if line.startswith("name:"):
            name = line[5:].strip()
        elif line.startswith("ID:"):
            digits = line[3:].strip()
            known = digits.isascii() and digits.isdigit() and len(digits) < 10
            number = int(digits) if known else -1
        elif (field := Field.parse(line)) is not None:
            fields[field.plain_name] = field
    if not name or not 0 <= number <= _MOST_NUMBER:
        return None
    common = tuple(each for each in fields.values() if each.name.startswith("common_"))
    own = tuple(each for each in fields.values() if not each.name.startswith("common_"))
    return EventFormat(group, name, number, own, print_fmt.strip(), layout, common)


def parse_formats(texts: Iterable[tuple[str, str]], layout: Layout) -> dict[int, EventFormat]:
    """Return the formats of (group, content) pairs by event type, without invalid ones."""
    found: dict[int, EventFormat] = {}
    for group, text in texts:
        each = parse_format(group, text, layout)
        if each is not None:
            found.setdefault(each.number, each)
    return found
