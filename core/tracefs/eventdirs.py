"""Directories of defined events in the guest's own tracefs.

Users read and write the host's tree. If a client of a mount defines an event, the guest makes
directories too, with tracefs_create_dir(), which can be traced.

Source: event_create_dir() in kernel/trace/trace_events.c, and fs/tracefs/inode.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..errors import GuestError
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..memento import Restore, attributes
from .event import TraceEvent
from .events.eventfile import EventMemory

CREATE, REMOVE = "event_create_dir", "event_remove_dir"
"""The guest functions that take a group and a name."""


class EventDirectories:
    """The directories that the guest has."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        memory: EventMemory,
        events: Callable[[], Iterable[TraceEvent]],
    ) -> None:
        """`events` returns the events that definitions make now."""
        self._machine = machine
        self._kallsyms = kallsyms
        self._memory = memory
        self._events = events
        self._made: frozenset[tuple[str, str]] = frozenset()
        """Group and name of each event that has a directory."""

    def update(self) -> None:
        """Have directories made and removed, in tasks of the client that is served.

        A guest without the functions, or one that has stopped, keeps the directories it has.
        """
        events = {(each.group, each.name): None for each in self._events()}
        if events.keys() == self._made:
            return
        gone = sorted(self._made - events.keys())
        new = [each for each in events if each not in self._made]
        self._made = frozenset(events)
        try:
            for function, names in ((REMOVE, gone), (CREATE, new)):
                for group, name in names:
                    self._call(function, group, name)
        except GuestError:
            return

    def _call(self, function: str, group: str, name: str) -> None:
        address = self._kallsyms.address(function)
        if address is None or not self._machine.alive:
            return
        places = [self._memory.place(text.encode() + b"\0") for text in (group, name)]
        try:
            self._machine.requests.call_as_client(address, places, "tracefs")
        finally:
            for place in places:
                self._memory.free(place)

    def save(self) -> Restore:
        """Return a function that restores the list of directories; the machine saves those."""
        return attributes(self, "_made")
