"""The events of an instance: those of the top trace array, with switches of their own.

The kernel calls the tracer for an event as long as one trace array wants it, and the tracer looks
at the switches of each. Source: event_trace_add_tracer() in kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...events.fields import Field
from ...memento import Restore, attributes, in_order
from ..event import TraceEvent
from .eventfile import EventFiles
from .filters import EventFilter
from .triggers import EventTriggers, TriggerServices


class SharedEvent:
    """An event of the top trace array, in an instance."""

    def __init__(self, event: TraceEvent, files: EventFiles, services: TriggerServices) -> None:
        self._event = event
        fields = event.filter.fields
        self.file = event.file.shared(files)
        self.filter = EventFilter(files, event.number, fields)
        self.triggers = EventTriggers(files, self.file, fields, services)

    @property
    def group(self) -> str:
        """Its system."""
        return self._event.group

    @property
    def name(self) -> str:
        """Its name."""
        return self._event.name

    @property
    def number(self) -> int:
        """Number of its type in the ring buffer."""
        return self._event.number

    @property
    def on(self) -> bool:
        """Whether it is generated for this instance."""
        return self.file.made

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields."""
        return self._event.fields

    @property
    def print_fmt(self) -> str:
        """How it is printed."""
        return self._event.print_fmt

    def switch(self, on: bool) -> None:
        """Switch the event on or off in this instance. Raises `DynftraceError`."""
        self.file.enable(on)

    def clear(self) -> None:
        """Remove triggers and filter, and switch it off."""
        self.triggers.clear()
        if self.filter.text:
            self.filter.set("0")
        self.file.enable(False)

    def save(self) -> Restore:
        """Return a function that restores its switches."""
        return in_order(self.file.save(), self.filter.save(), self.triggers.save())


class SharedEvents:
    """The events of an instance: each exists as long as that of the top trace array."""

    def __init__(
        self,
        top: Callable[[], Sequence[TraceEvent]],
        files: EventFiles,
        services: TriggerServices,
    ) -> None:
        """`top` returns the events that exist now."""
        self._top = top
        self._files = files
        self._services = services
        self._events: dict[TraceEvent, SharedEvent] = {}

    @property
    def events(self) -> Sequence[SharedEvent]:
        """The events that exist now."""
        found = [event for event in self._top() if event.file.has]
        if len(found) != len(self._events) or any(each not in self._events for each in found):
            files, services = self._files, self._services
            self._events = {
                each: self._events.get(each) or SharedEvent(each, files, services) for each in found
            }
        return [*self._events.values()]

    @property
    def on(self) -> bool:
        """Whether any event is generated for this instance."""
        return any(each.on for each in self._events.values())

    def clear(self) -> None:
        """Remove all filters and triggers, and switch all events off."""
        for each in self._events.values():
            each.clear()

    def save(self) -> Restore:
        """Return a function that restores the switches of all events."""
        events = (each.save() for each in self._events.values())
        return in_order(attributes(self, "_events"), *events)
