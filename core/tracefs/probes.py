"""Events of probes: one event, made by one or more definitions, each with a probe in the guest.

The guest's `struct trace_probe` and the steps by which it fetches arguments are in the memory of
events. Source: kernel/trace/trace_probe.c, 6.1.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .. import abi
from ..abi import FIRST_PROBE_EVENT_ID, TRACE_EVENT_FILES, FetchOp
from ..errors import CommandError, TracefsError
from ..events.fetch import Argument, print_fmt, shown_fmt, split_symbol
from ..events.fields import Layout
from ..events.formats import EventFormat
from ..events.probe import BAD_ADDRESS, ProbeDefinition, refused
from ..kernel.kallsyms import Kallsyms
from ..memento import Restore, attributes, in_order
from .dynevents import RESERVED, DynEvents
from .errorlog import ErrorLog
from .event import COMMON_SIZE, Field
from .events.eventfile import EventFiles
from .events.switched import SwitchedEvent
from .events.triggers import TriggerServices

Place = Callable[[bytes], int]
"""Stores bytes in the guest and returns their address."""


class EventNumbers:
    """Types of events in the ring buffer. A used type is reused only when no new one is left."""

    def __init__(self) -> None:
        self._next = FIRST_PROBE_EVENT_ID

    def new(self, used: Iterable[int]) -> int:
        """Return a type that is not among `used`. Raises `TracefsError` (ENODEV) without one."""
        if self._next < TRACE_EVENT_FILES:
            self._next += 1
            return self._next - 1
        taken = set(used)
        for number in range(FIRST_PROBE_EVENT_ID, TRACE_EVENT_FILES):
            if number not in taken:
                return number
        raise TracefsError(errno.ENODEV, "Too many event types")

    def save(self) -> Restore:
        """Return a function that restores which types were used."""
        return attributes(self, "_next")


class ProbeEvent(SwitchedEvent):
    """The event of one or more definitions."""

    head: tuple[str, ...] = ()
    """The longs before the arguments."""
    head_fmt = ("", "")
    """The format of `head` in `print_fmt`, and in the trace."""
    head_order: tuple[str, ...] = ()
    """The order of `head` in the format."""

    def __init__(
        self,
        probes: Probes,
        definition: ProbeDefinition,
        number: int,
        attach: Callable[[ProbeEvent, bool], None],
    ) -> None:
        self._probes = probes
        self._attach_to = attach
        self.group = definition.group
        self.name = definition.event
        self.kind = definition.kind
        self.arguments: tuple[Argument, ...] = definition.arguments
        if self.kind == "p":
            self.head = self.head_order = ("__probe_ip",)
            self.head_fmt = ("(%lx)", "(%pS{address})")
        elif self.kind == "r":
            self.head = ("__probe_func", "__probe_ret_ip")
            self.head_order = ("__probe_ret_ip", "__probe_func")
            self.head_fmt = ("(%lx <- %lx)", "(%pS{address} <- %ps{address})")
        else:
            self.head_fmt = ("", f"({definition.place})")
        self.members: tuple[Probe, ...] = ()
        """The probes that make it."""
        self._formats: dict[bool, EventFormat] = {}
        super().__init__(probes.files, probes.services, number, self.fields)

    @property
    def head_size(self) -> int:
        """Offset of the arguments in the event."""
        return COMMON_SIZE + len(self.head) * self._probes.pointer_size

    @property
    def fields(self) -> list[Field]:
        """The fields before the arguments, and the arguments."""
        long = self._probes.pointer_size
        head = [
            Field("unsigned long", name, COMMON_SIZE + row * long, long)
            for row, name in enumerate(self.head)
        ]
        return [*head, *(each.field(self.head_size) for each in self.arguments)]

    @property
    def print_fmt(self) -> str:
        """How it is printed."""
        values = [f"REC->{name}" for name in self.head]
        return print_fmt(self.arguments, self.head_fmt[0], values)

    def format(self, addresses: bool) -> EventFormat:
        """Return the format for printing; with `addresses`, symbols are followed by addresses."""
        found = self._formats.get(addresses)
        if found is None:
            values = [
                f"REC->{name}" for name in self.head_order for _ in range(2 if addresses else 1)
            ]
            digits = 2 * self._probes.pointer_size
            head = self.head_fmt[1].format(address=f" <%0{digits}lx>" if addresses else "")
            found = self._formats[addresses] = EventFormat(
                *(self.group, self.name, self.number, tuple(self.fields), self.print_fmt),
                self._probes.layout,
                shown_fmt=shown_fmt(self.arguments, head, values),
            )
        return found

    @property
    def busy(self) -> bool:
        """Whether it is in use: on in a trace array, or the event of an event probe."""
        return self.file.attached or self._probes.dynamic.probed(self)

    def _attach(self, on: bool) -> None:
        self._attach_to(self, on)

    def save(self) -> Restore:
        """Return a function that restores it."""
        return in_order(attributes(self, "members"), super().save())


class Probe:
    """One definition, and its `struct trace_probe`."""

    def __init__(self, probes: Probes, definition: ProbeDefinition, event: ProbeEvent) -> None:
        self._probes = probes
        self.definition = definition
        self.event = event
        self.address: int | None = None
        """What it probes; None while its module is not loaded."""
        self.next = 0
        """The next `struct trace_probe` at its address, as the guest has it."""
        self.guest = 0
        """Address of its `struct trace_probe`; 0 while it has none."""
        self._blocks: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """The definition as the files list it."""
        return self.definition.line

    @property
    def busy(self) -> bool:
        """Whether its event is in use, and this is its last definition."""
        return self.event.busy

    @property
    def recorded(self) -> bool:
        """Whether its events may be in the buffers, and no other definition prints them."""
        return self.event.file.was_attached and len(self.event.members) == 1

    @property
    def probes(self) -> tuple[str, str] | None:
        """Group and name of the event that it is attached to, if it is an event probe."""
        if self.definition.kind != "e":
            return None
        group, _, name = self.definition.place.partition(".")
        return group, name

    def matches(self, group: str | None, event: str, words: Sequence[str]) -> bool:
        """Return whether a removal names this definition."""
        if self.definition.kind == "e" and words:
            words = [words[0].replace("/", "."), *words[1:]]
        return self.definition.matches(group, event, words)

    def release(self) -> None:
        """Remove it. Raises `TracefsError` (EBUSY)."""
        self._probes.release(self)

    def store(self, ip: int, maxactive: int = 0) -> None:
        """Write its `struct trace_probe` to the guest. Raises `TracefsError` (ENOENT)."""
        probes, definition = self._probes, self.definition
        blocks: list[int] = []

        def place(data: bytes) -> int:
            blocks.append(probes.files.blocks.place(data))
            return blocks[-1]

        steps = [
            step
            for each in definition.arguments
            for step in each.compiled(self.event.head_size, probes.address_of, place)
        ]
        code = np.zeros(len(steps) + 1, abi.fetch_insn(probes.layout.byteorder))
        for number, step in enumerate(steps):
            code[number] = step
        loads = {step.op for each in definition.arguments for step in each.steps}
        row = np.zeros((), probes.trace_probe)
        row["code"], row["ip"] = place(code.tobytes()), ip
        row["type"], row["size"] = self.event.number, definition.size
        row["needs_regs"] = bool(loads & {FetchOp.REG, FetchOp.STACK, FetchOp.STACKP})
        row["maxactive"] = maxactive
        self.guest = place(row.tobytes())
        self._blocks = tuple(blocks)

    def free(self) -> None:
        """Give back its memory."""
        for block in self._blocks:
            self._probes.files.blocks.free(block)
        self._blocks, self.guest, self.next = (), 0, 0

    def set_next(self, address: int) -> None:
        """Have the `struct trace_probe` at `address` follow this one."""
        if address != self.next:
            self.set("next", address)
            self.next = address

    def read(self) -> np.void:
        """Return its `struct trace_probe`."""
        layout = self._probes.trace_probe
        row: np.void = np.frombuffer(
            self._probes.files.memory.read(self.guest, layout.itemsize), layout
        )[0]
        return row

    def set(self, name: str, value: int) -> None:
        """Write one field of its `struct trace_probe`."""
        layout = self._probes.trace_probe
        assert layout.fields is not None
        kind, offset = layout.fields[name][:2]
        self._probes.files.memory.write_int(self.guest + offset, value, kind.itemsize)

    def save(self) -> Restore:
        """Return a function that restores it; the machine saves its memory."""
        return attributes(self, "address", "guest", "next", "_blocks")


class Probes(ABC):
    """All probes of one kind."""

    subsystem = ""
    """Name of the parser in error_log."""

    def __init__(
        self,
        files: EventFiles,
        services: TriggerServices,
        kallsyms: Kallsyms,
        dynamic: DynEvents,
        numbers: EventNumbers,
        errors: ErrorLog,
    ) -> None:
        self.files = files
        self.services = services
        self.kallsyms = kallsyms
        memory = files.memory
        self.pointer_size = memory.pointer_size
        self.layout = Layout(memory.byteorder, memory.pointer_size)
        self.trace_probe = abi.trace_probe(memory.byteorder)
        """Layout of the guest's `struct trace_probe`."""
        self.dynamic = dynamic
        self._numbers = numbers
        self._errors = errors
        self.events: tuple[ProbeEvent, ...] = ()
        """Their events."""
        dynamic.add_type(self)

    def owns(self, event: object) -> bool:
        """Return whether `event` is a probe of this kind."""
        return isinstance(event, Probe) and event.event in self.events

    def probes(self) -> tuple[Probe, ...]:
        """Return all probes, in the order of their definitions."""
        return tuple(each for each in self.dynamic.all(self) if isinstance(each, Probe))

    def create(self, words: Sequence[str]) -> bool:
        """Add the definition in `words`; return False if it is of another kind.

        Raises `TracefsError`, after which nothing is added.
        """
        try:
            definition = self.parse(words)
            if definition is None:
                return False
            self._define(words, definition)
        except CommandError as error:
            self._errors.add_command(self.subsystem, words, error)
            raise
        return True

    @abstractmethod
    def parse(self, words: Sequence[str]) -> ProbeDefinition | None:
        """Parse a line; None if it is of another kind. Raises `CommandError`."""

    @abstractmethod
    def register(self, words: Sequence[str], probe: Probe) -> None:
        """Prepare a new probe. Raises `TracefsError`."""

    @abstractmethod
    def unregister(self, probe: Probe) -> None:
        """Undo `register`."""

    @abstractmethod
    def switch(self, event: ProbeEvent, on: bool) -> None:
        """Start or stop generating an event."""

    def _define(self, words: Sequence[str], definition: ProbeDefinition) -> None:
        event = self._event(words, definition)
        probe = Probe(self, definition, event)
        new = event not in self.events
        self.register(words, probe)
        if new:
            self.events = (*self.events, event)
        event.members = (*event.members, probe)
        self.dynamic.add(probe)

    def _event(self, words: Sequence[str], definition: ProbeDefinition) -> ProbeEvent:
        """Return the existing or a new event of a definition. Raises `CommandError` (EEXIST)."""
        named = (definition.group, definition.event)
        own = next((each for each in self.events if (each.group, each.name) == named), None)
        if own is not None and definition.kind != "e":
            self._check_same(words, definition, own)
            return own
        known = {(each.group, each.name) for each in self.services.events}
        if named in known or own is not None or RESERVED & set(named):
            reason = "Given group/event name is already used by another event"
            raise refused(words, 0, 0, reason, errno.EEXIST)
        numbers = (each.file.number for each in self.services.events)
        return ProbeEvent(self, definition, self._numbers.new(numbers), self.switch)

    def _check_same(
        self, words: Sequence[str], definition: ProbeDefinition, own: ProbeEvent
    ) -> None:
        """Raise `CommandError` (EEXIST) unless the definition can be added to the event `own`."""
        if own.kind != definition.kind:
            reason = "Probe type is different from existing probe"
            raise refused(words, 0, 0, reason, errno.EEXIST)
        mine, theirs = definition.arguments, own.arguments
        reason = "Argument type or name is different from existing probe"
        for index, pair in enumerate(zip(mine, theirs, strict=False)):
            if not pair[0].same_type(pair[1]):
                raise refused(words, 2 + index, 0, reason, errno.EEXIST)
        if len(mine) != len(theirs):
            raise refused(words, 2 + min(len(mine), len(theirs)), 0, reason, errno.EEXIST)
        for each in own.members:
            same = each.definition
            texts = [argument.text for argument in same.arguments]
            if (same.place, texts) == (definition.place, [each.text for each in mine]):
                reason = "There is already the exact same probe event"
                raise refused(words, 0, 0, reason, errno.EEXIST)

    def release(self, probe: Probe) -> None:
        """Remove a probe. Raises `TracefsError` (EBUSY) if it is the last of an event in use."""
        event = probe.event
        if len(event.members) == 1:
            if event.busy:
                raise TracefsError(errno.EBUSY)
            event.clear()
            self.events = tuple(each for each in self.events if each is not event)
        event.members = tuple(each for each in event.members if each is not probe)
        self.dynamic.remove(probe)
        self.unregister(probe)

    def address_of(self, text: str) -> int:
        """Return the address `SYM[+|-OFFS]`. Raises `TracefsError` (ENOENT)."""
        parts = split_symbol(text)
        address = None if parts is None else self.kallsyms.address(parts[0])
        if parts is None or address is None:
            raise TracefsError(errno.ENOENT)
        return (address + parts[1]) % (1 << 8 * self.pointer_size)

    def bad_address(self, words: Sequence[str], number: int = errno.ENOENT) -> CommandError:
        """Return the error for a place that does not exist."""
        return refused(words, 1, 0, BAD_ADDRESS, number)

    def save(self) -> Restore:
        """Return a function that restores all probes."""
        return in_order(
            attributes(self, "events"),
            self._numbers.save(),
            *(each.save() for each in self.events),
            *(each.save() for each in self.probes()),
        )
