"""The kernel's trace events of a trace array: sched, irq, timer, kmem and the others.

The kernel has a tracepoint for each, `__event_NAME`, and the tracer a function
`trace_event_NAME` that writes the event. Source: kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...events.fields import Field
from ...events.formats import EventFormat
from ...events.kernelevents import TABLE, read_events
from ...ftrace.tracepoint import Tracepoint
from ...kernel.kallsyms import Kallsyms
from ...machine.machine import Machine
from ...machine.symbols import TRACER
from ...memento import Restore, in_order
from .eventfile import EventFiles
from .switched import SwitchedEvent
from .triggers import TriggerServices


class KernelEvent(SwitchedEvent):
    """A trace event of the kernel."""

    def __init__(
        self,
        event: EventFormat,
        tracepoint: Tracepoint,
        files: EventFiles,
        services: TriggerServices,
        switched: Callable[[bool], None],
    ) -> None:
        self.event = event
        self._tracepoint = tracepoint
        self._switched = switched
        super().__init__(files, services, event.number, event.fields)

    @property
    def group(self) -> str:
        """Its system."""
        return self.event.group

    @property
    def name(self) -> str:
        """Its name."""
        return self.event.name

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, as the guest describes them."""
        return self.event.fields

    @property
    def print_fmt(self) -> str:
        """How it is printed, as the guest describes it."""
        return self.event.print_fmt

    def _attach(self, on: bool) -> None:
        self._tracepoint.enable(on)
        self._switched(on)


class KernelEvents:
    """All trace events of the kernel, by their types; empty for a guest without them."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        files: EventFiles,
        services: TriggerServices,
        switched: Callable[[bool], None],
    ) -> None:
        """Read the guest's events; `switched` is called while one is switched on or off."""
        memory, table = machine.memory, kallsyms.address(TABLE, TRACER)
        self._events: list[KernelEvent] = []
        for event in () if table is None else read_events(memory, table):
            point, function = f"__event_{event.name}", f"trace_event_{event.name}"
            tracepoint = Tracepoint.find(memory, kallsyms, point, function)
            if tracepoint is not None:
                self._events.append(KernelEvent(event, tracepoint, files, services, switched))
        self.by_number: Mapping[int, EventFormat] = {
            each.number: each.event for each in self._events
        }
        """The events by number of their type."""

    def __iter__(self) -> Iterator[KernelEvent]:
        return iter(self._events)

    def save(self) -> Restore:
        """Return a function that restores which events are on."""
        return in_order(*(each.save() for each in self._events))
