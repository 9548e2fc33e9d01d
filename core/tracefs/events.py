"""Events: events/ with a switch for each, set_event, and dynamic_events for a user's own.

A group has a directory while it has an event. Source: kernel/trace/trace_dynevent.c,
kernel/trace/trace_events.c; the files' formats in Documentation/trace/events.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence

from ..errors import TracefsError
from .array import TraceArray
from .event import TraceEvent, format_text
from .fprobes import Fprobes
from .number import switch
from .tree import Directory, File, Node


class DynamicEvents(File):
    """The definitions; each line written makes one, or takes one away."""

    mode = 0o640

    def __init__(self, fprobes: Fprobes) -> None:
        self._fprobes = fprobes

    def read(self) -> str:
        """A definition a line."""
        return "".join(f"{event.fprobe.line}\n" for event in self._fprobes)

    def write(self, text: str) -> None:
        """Commands, one a line, up to the first that is refused."""
        for line in text.split("\n"):
            self._fprobes.command(line)

    def truncate(self) -> None:
        """Take all away."""
        self._fprobes.clear()


class Enable(File):
    """The switch of some events."""

    mode = 0o640

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self._events = events

    def read(self) -> str:
        """1 for all on, 0 for none, X for some, ? where there is none."""
        states = {event.on for event in self._events}
        return "X\n" if len(states) > 1 else f"{int(states.pop())}\n" if states else "?\n"

    def write(self, text: str) -> None:
        """1 or 0."""
        on = switch(text)
        for event in self._events:
            event.switch(on)


class Id(File):
    """The type of an event in the ring buffer."""

    def __init__(self, event: TraceEvent) -> None:
        self._event = event

    def read(self) -> str:
        """The number."""
        return f"{self._event.number}\n"


class Format(File):
    """Where the fields of an event lie in the ring buffer, and how they are printed."""

    def __init__(self, event: TraceEvent) -> None:
        self._event = event

    def read(self) -> str:
        """The name, the number, the fields, the print format."""
        return format_text(self._event)


class AvailableEvents(File):
    """All events."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """`GROUP:EVENT`, one a line."""
        return _listed(self._array.events)


class SetEvent(File):
    """The events that are on; what is written switches some more on, or with `!` off."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """`GROUP:EVENT`, one a line."""
        return _listed(event for event in self._array.events if event.on)

    def write(self, text: str) -> None:
        """Words `GROUP:EVENT`, of which either may be `*`, or the name of an event or a group.

        Up to the first that names no event: EINVAL.
        """
        for word in text.split():
            name = word.removeprefix("!")
            chosen = [event for event in self._array.events if _named(event, name)]
            if not chosen:
                raise TracefsError(errno.EINVAL)
            for event in chosen:
                event.switch(not word.startswith("!"))

    def truncate(self) -> None:
        """Switch all off."""
        for event in self._array.events:
            event.switch(False)


def _listed(events: Iterable[TraceEvent]) -> str:
    return "".join(f"{event.group}:{event.name}\n" for event in events)


def _named(event: TraceEvent, word: str) -> bool:
    """Whether `word` means `event` (`ftrace_set_clr_event`)."""
    group, colon, name = word.partition(":")
    if not colon:
        return word in (event.group, event.name)
    return group in ("", "*", event.group) and name in ("", "*", event.name)


class _Events(Directory):
    """A switch, and a directory of each group."""

    def __init__(self, array: TraceArray) -> None:
        super().__init__({})
        self._array = array

    @property
    def entries(self) -> Mapping[str, Node]:
        """As the events are now."""
        groups: dict[str, list[TraceEvent]] = {}
        for event in self._array.events:
            groups.setdefault(event.group, []).append(event)
        return {
            "enable": Enable(self._array.events),
            **{group: _Group(groups[group]) for group in sorted(groups)},
        }


class _Group(Directory):
    """A switch, and a directory of each event, made when it is looked at."""

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        super().__init__({})
        self._events = events

    @property
    def entries(self) -> Mapping[str, Node]:
        """By name."""
        return {"enable": Enable(self._events)} | {
            event.name: Directory(
                {"enable": Enable([event]), "format": Format(event), "id": Id(event)}
            )
            for event in sorted(self._events, key=lambda event: event.name)
        }


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "available_events": AvailableEvents(array),
        "dynamic_events": DynamicEvents(array.fprobes),
        "events": _Events(array),
        "set_event": SetEvent(array),
    }
