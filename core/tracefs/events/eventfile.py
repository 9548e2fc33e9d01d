"""The switches of events: enabled, soft-disabled, filter and triggers, as the guest keeps them.

Each event has a row in the tracer's `trace_event_files`. The guest reads it for each event, and
its triggers change `soft_disabled`. Filters and triggers are in memory of their own. Nothing is
changed while a CPU is in the tracer. Source: __ftrace_event_enable_disable() in
kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import abi
from ...errors import DynftraceError
from ...facts import Facts
from ...ftrace.opslist import area_part
from ...ftrace.settle import settle
from ...kernel.kallsyms import Kallsyms
from ...machine.machine import Machine
from ...machine.memory import PAGE_SIZE, Memory
from ...machine.symbols import TRACER
from ...memento import Restore, attributes, in_order
from ..errorlog import ErrorLog

TABLE = "trace_event_files"
"""The tracer's array of switches."""

_PART = 8
"""The events' part of the area for the sites of hashes."""

_CHUNK = 1 << 16
_ALIGN = 16


class EventMemory:
    """Guest memory for filters and triggers; a block stays where it is until it is freed."""

    def __init__(self, facts: Facts, memory: Memory) -> None:
        self._memory = memory
        self._area = area_part(facts, _PART)
        self._end = self._area.start
        self._blocks: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []

    def place(self, data: bytes) -> int:
        """Store `data` and return its address. Raises `MemoryFault` if memory is short."""
        size = -(-max(len(data), 1) // _ALIGN) * _ALIGN
        found = next((hole for hole in sorted(self._free) if hole[1] >= size), None)
        if found is None:
            room = -(-size // _CHUNK) * _CHUNK
            name = f"trace_events.{(self._end - self._area.start) // PAGE_SIZE}"
            self._memory.map(self._end, room, name, executable=False)
            found = self._end, room
            self._end += room
        else:
            self._free.remove(found)
        at, room = found
        if room > size:
            self._free.append((at + size, room - size))
        self._blocks[at] = size
        self._memory.write(at, data)
        return at

    def free(self, address: int) -> None:
        """Give back the block at `address`."""
        self._free.append((address, self._blocks.pop(address)))

    def save(self) -> Restore:
        """Return a function that restores which blocks are in use; the machine saves them."""
        return attributes(self, "_end", "_blocks", "_free")


class EventFiles:
    """The guest's table of switches."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms, errors: ErrorLog) -> None:
        facts = machine.port.facts
        self.errors = errors
        """Where wrong filters and triggers are explained."""
        self.machine = machine
        self.memory = machine.memory
        self.blocks = EventMemory(facts, machine.memory)
        self._layout = abi.trace_event_file(facts.byteorder)
        self._table = kallsyms.address(TABLE, TRACER)

    def has(self, number: int) -> bool:
        """Whether events of type `number` have switches."""
        return self._table is not None and 0 < number < abi.TRACE_EVENT_FILES

    def address(self, number: int) -> int:
        """Return the address of the switches of events of type `number`."""
        assert self._table is not None
        return self._table + number * self._layout.itemsize

    def settle(self) -> None:
        """Let no CPU be in the tracer."""
        settle(self.machine)

    def set(self, number: int, field: str, value: int) -> None:
        """Write one field of a row; no CPU is in the tracer."""
        if not self.has(number):
            return
        assert self._layout.fields is not None
        kind, offset = self._layout.fields[field][:2]
        self.memory.write_int(self.address(number) + offset, value, kind.itemsize)

    def soft_disabled(self, number: int) -> bool:
        """Whether events of type `number` are not written."""
        if not self.has(number):
            return False
        data = self.memory.read(self.address(number), self._layout.itemsize)
        return bool(np.frombuffer(data, self._layout)[0]["soft_disabled"])

    def save(self) -> Restore:
        """Return a function that restores which memory is in use."""
        return in_order(self.blocks.save())


class EventFile:
    """The switches of one event. Soft users keep it made, though it may not be written."""

    def __init__(self, files: EventFiles, number: int, attach: Callable[[bool], None]) -> None:
        """`attach` makes the kernel call the tracer for this event, or no longer."""
        self.files = files
        self.number = number
        self._attach = attach
        self.made = False
        """Whether the kernel calls the tracer for this event."""
        self.was_made = False
        """Whether the buffers may have such events."""
        self.soft_users = 0
        """Number of triggers that need the event made."""

    @property
    def soft_disabled(self) -> bool:
        """Whether the event is made, but not written."""
        return self.made and self.files.soft_disabled(self.number)

    @property
    def state(self) -> str:
        """What the file `enable` shows: `*` after it with triggers."""
        soft = self.soft_disabled
        written = self.made and not soft
        return f"{int(written)}{'*' if soft or self.soft_users else ''}"

    def enable(self, on: bool) -> None:
        """Write the event, or no longer."""
        if on:
            self._set_soft_disabled(False)
            self._make(True)
        elif self.soft_users:
            self._set_soft_disabled(True)
        else:
            self._make(False)

    def use(self, on: bool) -> None:
        """Add a trigger that needs the event made, or remove it."""
        if on:
            if not self.made:
                self._set_soft_disabled(True)
                self._make(True)
            self.soft_users += 1
            return
        self.soft_users -= 1
        if not self.soft_users and self.soft_disabled:
            self._make(False)
            self._set_soft_disabled(False)

    def _set_soft_disabled(self, off: bool) -> None:
        self.files.set(self.number, "soft_disabled", off)

    def _make(self, on: bool) -> None:
        if on == self.made:
            return
        before, self.made = self.made, on
        self.was_made |= on
        self.files.set(self.number, "enabled", on)
        try:
            self._attach(on)
        except DynftraceError:
            self.made = before
            self.files.set(self.number, "enabled", before)
            raise

    def save(self) -> Restore:
        """Return a function that restores the switches; the machine saves the table."""
        return attributes(self, "made", "was_made", "soft_users")
