"""The events of system calls of a trace array, and which of them are on.

The kernel's dispatcher calls its tracepoints while they are enabled. The tracer attached
there looks up which events of the call are on. This module writes both tables, which are
in guest memory. Source: kernel/trace/trace_syscalls.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .. import abi
from ..events.syscalls import SyscallEvent, events_of, read_syscalls
from ..ftrace.ftrace import Ftrace
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, in_order
from ..trace.buffer.ringbuffer import RingBuffer
from .event import COMMON_SIZE, Field
from .events.eventfile import EventFiles
from .events.switched import SwitchedEvent
from .events.triggers import TriggerServices

GROUP = "syscalls"

METADATA = "syscalls_metadata"
"""The kernel's table of system calls."""

TRACEPOINTS = ("__tracepoint_sys_enter", "__tracepoint_sys_exit")
FUNCTIONS = ("ftrace_syscall_enter", "ftrace_syscall_exit")
"""The tracer's functions that the tracepoints call."""

TABLE = "syscall_events"
"""The tracer's table of events that are on."""

NEEDED = {
    METADATA: None,
    **dict.fromkeys(TRACEPOINTS),
    **dict.fromkeys((*FUNCTIONS, TABLE), TRACER),
}
"""The symbols by name, each with its owner."""


class SwitchedSyscall(SwitchedEvent):
    """The entry or the exit of a system call."""

    group = GROUP

    def __init__(self, syscalls: Syscalls, event: SyscallEvent) -> None:
        self._syscalls = syscalls
        self.event = event
        super().__init__(syscalls.files, syscalls.services, event.number, self.fields)

    @property
    def name(self) -> str:
        """The kernel's name of the event."""
        return self.event.name

    @property
    def fields(self) -> list[Field]:
        """The number of the call, and a long for each argument or for the result."""
        long = self._syscalls.pointer_size
        longs = [("long", "ret")] if self.event.exit else list(self.event.syscall.arguments)
        return [
            Field("int", "__syscall_nr", COMMON_SIZE, 4, True),
            *(
                Field(kind, name, COMMON_SIZE + long * row, long, self.event.exit)
                for row, (kind, name) in enumerate(longs, 1)
            ),
        ]

    @property
    def print_fmt(self) -> str:
        """How the event is printed: each argument in hex."""
        return self.event.print_fmt

    def _attach(self, on: bool) -> None:
        self._syscalls.update(self)


@dataclass(frozen=True, slots=True)
class _Guest:
    """Guest addresses; pairs are for entry and exit."""

    tracepoints: tuple[int, int]
    functions: tuple[int, int]
    table: int


class Syscalls:
    """All events of system calls, by call number; empty for a kernel without the tracepoints."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        ftrace: Ftrace,
        ring: RingBuffer,
        files: EventFiles,
        services: TriggerServices,
        switched: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the guest's calls; `switched` is called after an event was switched on or off."""
        self.files = files
        self.services = services
        self._memory = machine.memory
        self._ring = ring
        self._switched = switched
        self._byteorder = ftrace.port.facts.byteorder
        self.pointer_size = ftrace.port.facts.pointer_size
        self._events: tuple[SwitchedSyscall, ...] = ()
        self.by_number: Mapping[int, SyscallEvent] = MappingProxyType({})
        """The events by number of their type."""
        self._guest: _Guest | None = None
        places = {name: kallsyms.address(name, owner) for name, owner in NEEDED.items()}
        found = {name: at for name, at in places.items() if at is not None}
        if len(found) < len(NEEDED) or not all(map(self._holds, (found[n] for n in TRACEPOINTS))):
            return
        enter, leave = (found[name] for name in TRACEPOINTS)
        of_enter, of_exit = (found[name] for name in FUNCTIONS)
        self._guest = _Guest((enter, leave), (of_enter, of_exit), found[TABLE])
        events = events_of(read_syscalls(self._memory, found[METADATA]))
        self._events = tuple(SwitchedSyscall(self, event) for event in events)
        self.by_number = MappingProxyType({event.number: event for event in events})

    def _holds(self, address: int) -> bool:
        """Return whether a tracepoint at `address` is mapped."""
        region = self._memory.region_at(address)
        return region is not None and address + self._layout.itemsize <= region.end

    @property
    def _layout(self) -> np.dtype[np.void]:
        return abi.tracepoint(self._byteorder)

    def __iter__(self) -> Iterator[SwitchedSyscall]:
        return iter(self._events)

    def save(self) -> Restore:
        """Return a function that restores which events are on; the machine saves its tables."""
        return in_order(*(event.save() for event in self._events))

    def update(self, changed: SwitchedSyscall) -> None:
        """Write the switch of `changed` to the guest.

        The tracepoint is enabled last, and its function stays set: a CPU may be about to
        call it.
        """
        assert self._guest is not None
        if changed.on:
            self._ring.expand()
        call = changed.event.syscall
        ways = {each.event.exit: each for each in self._events if each.event.syscall is call}
        layout = abi.syscall_event(self._byteorder)
        entry = np.zeros((), layout)
        for name, way in (("enter", ways[False]), ("exit", ways[True])):
            entry[name] = way.number if way.file.attached else 0
        entry["nb_args"] = len(call.arguments)
        self._memory.write(self._guest.table + call.nr * layout.itemsize, entry.tobytes())
        side = int(changed.event.exit)
        tracepoint = np.zeros((), self._layout)
        tracepoint["func"] = self._guest.functions[side]
        tracepoint["enabled"] = any(
            each.file.attached for each in self._events if each.event.exit == changed.event.exit
        )
        self._memory.write(self._guest.tracepoints[side], tracepoint.tobytes())
        self._switched()
