"""The base of every event that can be switched on: its switches, filter and triggers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...events.fields import Field
from ...memento import Restore, in_order
from .eventfile import EventFile, EventFiles
from .filters import EventFilter
from .triggers import EventTriggers, TriggerServices


class SwitchedEvent(ABC):
    """An event that can be switched on, filtered, and given triggers."""

    def __init__(
        self,
        files: EventFiles,
        services: TriggerServices,
        number: int,
        filterable: Sequence[Field],
    ) -> None:
        """Filters and triggers know the fields `filterable`."""
        self.number = number
        """Number of its type in the ring buffer."""
        self.file = EventFile(files, number, self._attach)
        self.filter = EventFilter(files, number, filterable)
        self.triggers = EventTriggers(files, self.file, filterable, services)

    @property
    def on(self) -> bool:
        """Whether the guest generates the event."""
        return self.file.made

    def switch(self, on: bool) -> None:
        """Switch the event on or off. Raises what attaching to the event raises."""
        self.file.enable(on)

    @abstractmethod
    def _attach(self, on: bool) -> None:
        """Start or stop generating the event in the guest."""

    def clear(self) -> None:
        """Remove its filter and its triggers."""
        if self.filter.text:
            self.filter.set("0")
        self.triggers.clear()

    def save(self) -> Restore:
        """Return a function that restores its switches, its filter and its triggers."""
        return in_order(self.file.save(), self.filter.save(), self.triggers.save())
