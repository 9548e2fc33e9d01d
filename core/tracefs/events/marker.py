"""The event ftrace:print as an event with triggers: each write to trace_marker.

It cannot be switched on or filtered. Source: init_tracer_tracefs() and tracing_mark_write() in
kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...abi import TraceType
from ...memento import Restore, in_order
from ..ftrace_events import layouts
from ..tree import File
from .eventfile import EventFile, EventFiles
from .triggers import EventTriggers, TriggerServices
from .triggers import files as trigger_files


class MarkerEvent:
    """ftrace:print in one trace array."""

    group = "ftrace"
    name = "print"

    def __init__(self, files: EventFiles, services: TriggerServices, long: int) -> None:
        """`long` is the size of the guest's long in bytes."""
        layout = next(each for each in layouts(long) if each.name == self.name)
        self.fields = layout.fields
        self.file = EventFile(files, TraceType.PRINT, lambda on: None)
        self.triggers = EventTriggers(files, self.file, self.fields, services)

    @property
    def files(self) -> Mapping[str, File]:
        """The files of its triggers by name."""
        return trigger_files(self.triggers)

    def save(self) -> Restore:
        """Return a function that restores its triggers."""
        return in_order(self.file.save(), self.triggers.save())
