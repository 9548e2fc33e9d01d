"""The fprobes of a trace array: their definitions, and which of them are on.

Each definition has a number, the type of its events. While it is on, it also has an
ftrace_ops that wants the registers of one function. Source:
kernel/trace/trace_dynevent.c, kernel/trace/trace_fprobe.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ..abi import FIRST_EVENT_ID, LAST_EVENT_ID
from ..errors import CommandError, TracefsError
from ..events.fprobe import Fprobe, parse, refused
from ..ftrace.ftrace import Ftrace
from ..ftrace.ops import FtraceHash, FtraceOps
from ..kernel.kallsyms import Kallsyms
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.ringbuffer import RingBuffer
from .dynevents import RESERVED, DynEvents
from .errorlog import ErrorLog
from .event import COMMON_SIZE, Field
from .events.eventfile import EventFiles
from .events.switched import SwitchedEvent
from .events.triggers import TriggerServices

FUNCTION = "fentry_trace_func"
"""The guest function that writes a hit."""

SUBSYSTEM = "trace_fprobe"
"""Name of the parser in error_log."""


class FprobeEvent(SwitchedEvent):
    """The event of one definition."""

    def __init__(self, fprobes: Fprobes, fprobe: Fprobe, number: int) -> None:
        self._fprobes = fprobes
        self.fprobe = fprobe
        super().__init__(fprobes.files, fprobes.services, number, self._filterable)
        self.ops: FtraceOps | None = None
        """The ops that is registered while the event is on."""

    @property
    def line(self) -> str:
        """The definition as the files list it."""
        return self.fprobe.line

    @property
    def busy(self) -> bool:
        """Whether it is in use: on in a trace array, or the event of an event probe."""
        return self.file.attached or self._fprobes.dynamic.probed(self)

    @property
    def recorded(self) -> bool:
        """Whether its hits may be in the buffers."""
        return self.file.was_attached

    @property
    def probes(self) -> None:
        """Return None: an fprobe is attached to no event."""
        return None

    def matches(self, group: str | None, event: str, words: Sequence[str]) -> bool:
        """Return whether a removal names this definition."""
        named = group in (None, self.group) and event in ("", self.name)
        return named and self.line.split()[1:][: len(words)] == list(words)

    def release(self) -> None:
        """Remove it. Raises `TracefsError` (EBUSY) while it is in use."""
        if self.busy:
            raise TracefsError(errno.EBUSY)
        self.clear()
        self._fprobes.dynamic.remove(self)

    @property
    def group(self) -> str:
        """The group in its definition."""
        return self.fprobe.group

    @property
    def name(self) -> str:
        """The event name in its definition."""
        return self.fprobe.event

    @property
    def fields(self) -> list[Field]:
        """Two addresses and all registers, from which its arguments are computed."""
        long = self._fprobes.pointer_size
        names = ("__probe_ip", "__parent_ip", *self._fprobes.registers)
        return [
            Field("unsigned long", name, COMMON_SIZE + row * long, long)
            for row, name in enumerate(names)
        ]

    @property
    def print_fmt(self) -> str:
        """How its arguments are printed."""
        return self.fprobe.print_fmt(self._fprobes.registers, 8 * self._fprobes.pointer_size)

    def _attach(self, on: bool) -> None:
        self._fprobes.switch(self, on)

    def save(self) -> Restore:
        """Return a function that restores the event, and whether its function is probed."""
        return in_order(attributes(self, "ops"), super().save())

    @property
    def _filterable(self) -> list[Field]:
        """Its arguments, which are in the registers, and its fields."""
        long, big = self._fprobes.pointer_size, self._fprobes.big_endian
        found = []
        for each in self.fprobe.arguments:
            size = min(each.bits // 8, long)
            at = COMMON_SIZE + (2 + each.row) * long + (long - size if big else 0)
            found.append(Field("unsigned long", each.name, at, size, each.kind == "s"))
        return [*found, *self.fields]


class Fprobes:
    """All fprobes, in the order of their definition."""

    def __init__(
        self,
        ftrace: Ftrace,
        kallsyms: Kallsyms,
        ring: RingBuffer,
        files: EventFiles,
        services: TriggerServices,
        dynamic: DynEvents,
        switched: Callable[[], None],
        errors: ErrorLog,
    ) -> None:
        """`switched` is called after an event was switched on or off."""
        facts = ftrace.port.facts
        self.files = files
        self.services = services
        self.pointer_size = facts.pointer_size
        self.big_endian = facts.byteorder == "big"
        self.registers = [register.name for register in facts.abi.pt_regs]
        self.dynamic = dynamic
        self._ftrace = ftrace
        self._kallsyms = kallsyms
        self._ring = ring
        self._switched = switched
        self._errors = errors
        self._next = FIRST_EVENT_ID
        dynamic.add_type(self)

    def save(self) -> Restore:
        """Return a function that restores the definitions and which of them are on."""
        return in_order(attributes(self, "_next"), *(each.save() for each in self))

    def __iter__(self) -> Iterator[FprobeEvent]:
        return (each for each in self.dynamic.all() if isinstance(each, FprobeEvent))

    def owns(self, event: object) -> bool:
        """Return whether it is an fprobe."""
        return isinstance(event, FprobeEvent)

    def by_number(self) -> Mapping[int, Fprobe]:
        """Return the definitions by the number of their type."""
        return {event.number: event.fprobe for event in self}

    def create(self, words: Sequence[str]) -> bool:
        """Add the definition in `words`; return False if it is of another kind.

        Raises `TracefsError`: EINVAL with a reason, ENOENT for a missing function,
        EADDRNOTAVAIL if several functions have the name, EEXIST.
        """
        if words[0][0] != "f":
            return False
        try:
            self._define(words)
        except CommandError as error:
            self._errors.add_command(SUBSYSTEM, words, error)
            raise
        return True

    def _define(self, words: Sequence[str]) -> None:
        facts = self._ftrace.port.facts
        fprobe = parse(words, facts.abi, facts.pointer_size)
        self._site(fprobe.symbol)
        if (fprobe.group, fprobe.event) in {
            (event.group, event.name) for event in self.services.events
        } or {fprobe.group, fprobe.event} & RESERVED:
            reason = "Given group/event name is already used by another event"
            raise refused(reason, fprobe.name, errno.EEXIST)
        if self._next > LAST_EVENT_ID:
            raise TracefsError(errno.ENODEV, "Too many event types")
        self.dynamic.add(FprobeEvent(self, fprobe, self._next))
        self._next += 1

    def switch(self, event: FprobeEvent, on: bool) -> None:
        """Start or stop probing the function of `event`.

        Raises `TracefsError` (EINVAL if the port saves no registers, ENOENT if the function
        was unloaded, EBUSY with too many users, ENODEV) and `FtraceBug`.
        """
        if event.ops is not None:
            self._ftrace.unregister(event.ops)
            event.ops = None
            self._switched()
            return
        self._ring.expand()
        self._ftrace.check()
        function = self._kallsyms.address(FUNCTION, TRACER)
        if function is None:
            raise TracefsError(errno.ENODEV)
        fprobe = event.fprobe
        ops = FtraceOps(
            f"{fprobe.group}:{fprobe.event}",
            function,
            FtraceHash.of(np.array([self._site(fprobe.symbol)], np.uint64)),
            op=event.number,
            save_regs=True,
        )
        self._ftrace.register(ops)
        event.ops = ops
        self._switched()

    def _site(self, symbol: str) -> int:
        """Return rec.ip of the function `symbol`."""
        records = self._ftrace.records
        names = {symbol, self._ftrace.port.facts.abi.text_prefix + symbol}
        rows = [row for row, name in enumerate(records.names) if name in names]
        if not rows:
            raise refused("Invalid probed address or symbol", symbol, errno.ENOENT, index=1)
        if len(rows) > 1:
            raise refused("The symbol is not unique", symbol, errno.EADDRNOTAVAIL, index=1)
        return int(records.table["ip"][rows[0]])
