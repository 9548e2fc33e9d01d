"""Events: events/ with a switch for each, set_event, and dynamic_events for the user's own.

A group has a directory as long as it has an event. Source: kernel/trace/trace_dynevent.c,
kernel/trace/trace_events.c; the files' formats in Documentation/trace/events.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ...errors import TracefsError
from ...trace.buffer.ringbuffer import RingBuffer
from ..dynevents import DynEvents, EventsFile
from ..event import TraceEvent, format_text
from ..ftrace_events import files as ftrace_event_files
from ..number import switch
from ..tree import Directory, File, Node, Owner
from .filters import FilterFile, SystemFilterFile
from .marker import MarkerEvent
from .triggers import files as trigger_files


class HasEvents(Protocol):
    """A trace array, as far as these files need it."""

    @property
    def ring(self) -> RingBuffer:
        """The ring buffers."""
        ...

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now."""
        ...

    @property
    def marker(self) -> MarkerEvent:
        """The event of trace_marker."""
        ...


class Enable(File):
    """The switch of one or more events."""

    mode = 0o640

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self._events = events

    def read(self) -> str:
        """Return 1 if all are on, 0 if all are off, X if they differ, ? without events."""
        states = {event.on for event in self._events}
        return "X\n" if len(states) > 1 else f"{int(states.pop())}\n" if states else "?\n"

    def write(self, text: str) -> None:
        """Switch all of them: 1 or 0."""
        on = switch(text)
        for event in self._events:
            event.switch(on)


class EnableEvent(Enable):
    """The switch of one event."""

    def __init__(self, event: TraceEvent) -> None:
        super().__init__([event])
        self._event = event

    def read(self) -> str:
        """Return 1 if the event is written, or 0; `*` after it if triggers need the event."""
        return f"{self._event.file.state}\n"


class Id(File):
    """The number of an event's type in the ring buffer."""

    def __init__(self, event: TraceEvent) -> None:
        self._event = event

    def read(self) -> str:
        """Return the number."""
        return f"{self._event.number}\n"


class Format(File):
    """The layout of an event in the ring buffer, and how it is printed."""

    def __init__(self, event: TraceEvent) -> None:
        self._event = event

    def read(self) -> str:
        """Return name, number, fields and print format."""
        return format_text(self._event)


class AvailableEvents(File):
    """All events."""

    def __init__(self, array: HasEvents) -> None:
        self._array = array

    def read(self) -> str:
        """Return `GROUP:EVENT`, one a line."""
        return _listed(self._array.events)


class SetEvent(File):
    """The events that are on; a word written switches events on, or with `!` off."""

    mode = 0o644

    def __init__(self, array: HasEvents) -> None:
        self._array = array

    def read(self) -> str:
        """Return `GROUP:EVENT`, one a line."""
        return _listed(event for event in self._array.events if event.on)

    def write(self, text: str) -> None:
        """Accept words `GROUP:EVENT`, with `*` for either part, or the name of an event or group.

        The first word that matches no event raises EINVAL.
        """
        for word in text.split():
            name = word.removeprefix("!")
            chosen = [event for event in self._array.events if _named(event, name)]
            if not chosen:
                raise TracefsError(errno.EINVAL)
            for event in chosen:
                event.switch(not word.startswith("!"))

    def truncate(self) -> None:
        """Switch all events off."""
        for event in self._array.events:
            event.switch(False)


def _listed(events: Iterable[TraceEvent]) -> str:
    return "".join(f"{event.group}:{event.name}\n" for event in events)


def _named(event: TraceEvent, word: str) -> bool:
    """Return whether `word` matches `event` (`ftrace_set_clr_event`)."""
    group, colon, name = word.partition(":")
    if not colon:
        return word in (event.group, event.name)
    return group in ("", "*", event.group) and name in ("", "*", event.name)


class _Events(Directory):
    """events/: a switch, and a directory for each group."""

    def __init__(self, array: HasEvents) -> None:
        super().__init__({})
        self._array = array
        self._texts: dict[str, str] = {}
        self._fixed = ftrace_event_files(array.ring.layout.pointer_size, array.marker.files)

    @property
    def entries(self) -> Mapping[str, Node]:
        """The groups that exist now."""
        groups: dict[str, list[TraceEvent]] = {}
        for event in self._array.events:
            groups.setdefault(event.group, []).append(event)
        return _owned(
            {
                "enable": Enable(self._array.events),
                **self._fixed,
                **{group: _Group(groups[group], self._texts) for group in sorted(groups)},
            },
            self.owner,
        )


class _Group(Directory):
    """events/GROUP: a switch, and a directory for each event, made when it is read."""

    def __init__(self, events: Sequence[TraceEvent], texts: dict[str, str]) -> None:
        """`texts` has the contents of the systems' `filter` files."""
        super().__init__({})
        self._events = events
        self._texts = texts

    @property
    def entries(self) -> Mapping[str, Node]:
        """The files by name."""
        group = self._events[0].group
        events = sorted(self._events, key=lambda each: each.name)
        return _owned(
            {
                "enable": Enable(self._events),
                "filter": SystemFilterFile(self._events, self._texts, group),
                **{event.name: _files(event) for event in events},
            },
            self.owner,
        )


def _owned(entries: Mapping[str, Node], owner: Owner | None) -> Mapping[str, Node]:
    """Return `entries` with `owner` as their owner."""
    if owner is not None:
        for node in entries.values():
            node.own(owner)
    return entries


def array_files(array: HasEvents) -> Mapping[str, Node]:
    """Return the files of this module that each trace array has."""
    return {"events": _Events(array), "set_event": SetEvent(array)}


def _files(event: TraceEvent) -> Directory:
    """Return the directory of one event."""
    return Directory(
        {
            "enable": EnableEvent(event),
            "filter": FilterFile(event.filter),
            **trigger_files(event.triggers),
            "format": Format(event),
            "id": Id(event),
        }
    )


def files(array: HasEvents, dynamic: DynEvents) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "available_events": AvailableEvents(array),
        "dynamic_events": EventsFile(dynamic),
        **array_files(array),
    }
