"""The switches of events: enabled, soft-disabled, filter and triggers, as the guest keeps them.

Each event has a row in the `event_files` of each `struct trace_array`. The guest reads it for
each event, and its triggers change `soft_disabled`. Filters and triggers are in memory of their
own. Nothing is changed while a CPU is in the tracer. Source: __ftrace_event_enable_disable() in
kernel/trace/trace_events.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import abi
from ...errors import DynftraceError
from ...facts import Facts
from ...ftrace.guestarray import GuestArray
from ...ftrace.opslist import area_part
from ...ftrace.settle import settle
from ...machine.machine import Machine
from ...machine.memory import PAGE_SIZE, Memory
from ...memento import Restore, attributes, in_order
from ..errorlog import ErrorLog

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
    """The switches of the events of a trace array."""

    def __init__(
        self,
        machine: Machine,
        array: GuestArray | None,
        errors: ErrorLog,
        blocks: EventMemory | None = None,
    ) -> None:
        """`array` has the switches, unless the kernel has none; `blocks` is shared by all."""
        facts = machine.port.facts
        self.errors = errors
        """Where wrong filters and triggers are explained."""
        self.machine = machine
        self.memory = machine.memory
        self.blocks = blocks or EventMemory(facts, machine.memory)
        self.array = array
        self._layout = abi.trace_event_file(facts.byteorder)
        self._table = None if array is None else array.at("event_files")

    def has(self, number: int) -> bool:
        """Whether events of type `number` have switches."""
        return self._table is not None and 0 < number < abi.TRACE_EVENT_FILES

    def address(self, number: int) -> int:
        """Return the address of the switches of events of type `number`."""
        assert self._table is not None
        return self._table + number * self._layout.itemsize

    def settle(self) -> None:
        """Run the vCPUs until none is inside the tracer."""
        settle(self.machine)

    def set(self, number: int, field: str, value: int) -> None:
        """Write one field of a row. No CPU may be inside the tracer."""
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


class Attachment:
    """What makes the kernel call the tracer for an event, as long as a trace array wants it."""

    def __init__(self, attach: Callable[[bool], None]) -> None:
        self.users = 0
        """Number of trace arrays for which the event is made."""
        self.was_used = False
        """Whether it was ever made, so that buffers may have such events."""
        self._attach = attach

    def use(self, on: bool) -> None:
        """Add a trace array, or remove one."""
        before = self.users
        self.users += 1 if on else -1
        self.was_used |= on
        try:
            if not (before and self.users):
                self._attach(on)
        except DynftraceError:
            self.users = before
            raise


class EventFile:
    """The switches of an event in a trace array.

    Soft users (triggers) keep the event generated, even if it is not written.
    """

    def __init__(
        self, files: EventFiles, number: int, attach: Callable[[bool], None] | Attachment
    ) -> None:
        """`attach` starts or stops the kernel's calls of the tracer for this event."""
        self.files = files
        self.number = number
        self._attachment = attach if isinstance(attach, Attachment) else Attachment(attach)
        self.made = False
        """Whether the kernel calls the tracer for this event."""
        self.soft_users = 0
        """Number of triggers that need the event made."""

    def shared(self, files: EventFiles) -> EventFile:
        """Return the switches of the same event in the trace array of `files`."""
        return EventFile(files, self.number, self._attachment)

    @property
    def has(self) -> bool:
        """Whether the event has switches: the guest's table limits the number of types."""
        return self.files.has(self.number)

    @property
    def address(self) -> int:
        """Address of its `struct trace_event_file`; `has` must be true."""
        return self.files.address(self.number)

    @property
    def attached(self) -> bool:
        """Whether the kernel calls the tracer for this event, for any trace array."""
        return self._attachment.users > 0

    @property
    def was_attached(self) -> bool:
        """Whether it was ever attached, so that the buffers may contain such events."""
        return self._attachment.was_used

    @property
    def soft_disabled(self) -> bool:
        """Whether the event is generated, but not written."""
        return self.made and self.files.soft_disabled(self.number)

    @property
    def state(self) -> str:
        """Content of the file `enable`, with a `*` at the end if the event has soft users."""
        soft = self.soft_disabled
        written = self.made and not soft
        return f"{int(written)}{'*' if soft or self.soft_users else ''}"

    def enable(self, on: bool) -> None:
        """Start or stop writing the event."""
        if on:
            self._set_soft_disabled(False)
            self._make(True)
        elif self.soft_users:
            self._set_soft_disabled(True)
        else:
            self._make(False)

    def use(self, on: bool) -> None:
        """Add or remove a trigger that needs the event generated."""
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
        self.files.set(self.number, "enabled", on)
        try:
            self._attachment.use(on)
        except DynftraceError:
            self.made = before
            self.files.set(self.number, "enabled", before)
            raise

    def save(self) -> Restore:
        """Return a function that restores the switches; the machine saves the table."""
        return in_order(
            attributes(self, "made", "soft_users"),
            attributes(self._attachment, "users", "was_used"),
        )
