"""An instance: a trace array with buffers, function tracer, events, filter and settings of its own.

Its guest memory comes from a pool: a `struct trace_array` with the descriptors of its buffers
and the switches of its events, the buffers, the list of its pids, and the tables of its
commands. Source: trace_array_create(), __remove_instance() and trace_ok_for_array() in
kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from .. import abi
from ..abi import TraceIter
from ..errors import MemoryFault, TracefsError
from ..events.histtext import Names
from ..events.synth import SynthEvent
from ..ftrace.guestarray import GuestArray
from ..ftrace.latency import MaxTrace
from ..ftrace.ops import FtraceOps
from ..ftrace.pids import listed
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.contents import Contents
from ..trace.buffer.pool import MemoryPool, PoolTables
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.buffer.ringmemory import Descriptor
from ..trace.text.textcontext import TextContext
from .array import TraceArray
from .basearray import FORKS, FUNCTION, NOP, TOP_OPTIONS, BaseArray
from .commands import Commands
from .event import TraceEvent
from .events.eventfile import EventFiles
from .events.marker import MarkerEvent
from .events.pids import EventPids
from .events.shared import SharedEvents
from .events.triggers import Triggered
from .latency import OVERWRITE

FUNCTION_TRACE_CALL = "array_function_trace_call"
"""The guest function that the function tracer of an instance registers."""


class _Descriptors:
    """Views of the `struct ring_buffer_cpu` of each CPU in a `struct trace_array`.

    Each view is made on access, because its memory may have been remapped since the last one.
    """

    def __init__(self, guest: GuestArray, cpus: int) -> None:
        self._guest = guest
        self._cpus = cpus

    def __len__(self) -> int:
        return self._cpus

    def __getitem__(self, cpu: int, /) -> Descriptor:
        return self._guest.buffer(cpu)


class InstancePids:
    """The tasks whose functions an instance traces; each tuple is ascending."""

    def __init__(self, ring: RingBuffer, pool: MemoryPool, guest: GuestArray) -> None:
        """`guest` points to the list."""
        self.pids: tuple[int, ...] = ()
        self.notrace: tuple[int, ...] = ()
        self._ring = ring
        self._guest = guest
        self._list = PoolTables(pool, "instance_pids")

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Trace only `pids` (all tasks if empty) except `notrace`, from now on.

        Raises `TracefsError` (ENOMEM).
        """
        chosen, left_out = tuple(sorted({*pids})), tuple(sorted({*notrace}))
        self._ring.settle()  # no vCPU reads the list before the last one
        address = 0
        if chosen or left_out:
            try:
                (address,) = self._list.write([listed(chosen, left_out)])
            except MemoryFault as error:
                raise TracefsError(errno.ENOMEM) from error
        self._guest.set("pids", address)
        self.pids, self.notrace = chosen, left_out

    def free(self) -> None:
        """Give the memory of the list back."""
        self._list.free()

    def save(self) -> Restore:
        """Return a function that restores the pids."""
        return in_order(attributes(self, "pids", "notrace"), self._list.save())


class Instance(BaseArray):
    """A trace array below instances/."""

    prefix = "array_"

    def __init__(self, top: TraceArray, pool: MemoryPool, name: str) -> None:
        """Make an instance with the options of `top`. Raises `TracefsError` (ENOMEM)."""
        memory, cpus = top.machine.memory, top.cpus
        self.name = name
        self._top = top
        self._pool = pool
        try:
            address = pool.take(abi.trace_array(memory.byteorder).itemsize, "instance")
            guest = GuestArray(memory, address)
        except MemoryFault as error:
            raise TracefsError(errno.ENOMEM) from error
        try:
            ring = RingBuffer(
                memory,
                _Descriptors(guest, cpus),
                top.ring.layout,
                pool,
                now=self.now,
                settle=top.ring.settle,
                name="instance_buffer",
            )
        except TracefsError:
            pool.give(address)
            raise
        try:
            ring.expand()
        except TracefsError:
            ring.release()
            pool.give(address)
            raise
        function = top.kallsyms.address(FUNCTION_TRACE_CALL, TRACER)
        ops = None if function is None else FtraceOps(f"{name}_ops", function, op=address)
        super().__init__(top.machine, top.kallsyms, top.ftrace, ring, ops, guest)
        self._address = address
        self._tables = PoolTables(pool, "instance_probes")
        self.pids = InstancePids(ring, pool, guest)
        self.event_files = EventFiles(top.machine, guest, self.error_log, top.event_files.blocks)
        self.event_pids = EventPids(self.event_files)
        self.marker = MarkerEvent(self.event_files, self, ring.layout.pointer_size)
        self._events = SharedEvents(lambda: top.events, self.event_files, self)
        self.commands = Commands(
            *(top.machine, top.ftrace, self.snapshot, self, guest, self._tables),
            top=top.commands,
        )
        self.options = {
            name: on and name not in FORKS
            for name, on in top.options.items()
            if name not in TOP_OPTIONS
        }
        ring.set_overwrite(self.options[OVERWRITE])
        guest.set_flag(TraceIter.STACKTRACE, self.options["stacktrace"])

    def save(self) -> Restore:
        """Return a function that restores its tracer, settings and buffers."""
        parts = (self.ring, self.pids, self.event_pids, self._events, self.marker, self.commands)
        return in_order(super().save(), *(each.save() for each in (*parts, self._tables)))

    def stop(self) -> None:
        """Stop its tracer, its commands and its events.

        Raises `TracefsError` (EBUSY if call sites still call it: a bug has shut ftrace off, or
        a change of them is being watched) and `FtraceBug`.
        """
        if self.ftrace.disabled and self._registered:
            raise TracefsError(errno.EBUSY)
        self.set_tracer(NOP)
        self.commands.clear()
        if self.ftrace.patcher.patch is not None:
            raise TracefsError(errno.EBUSY)
        self._events.clear()
        self.marker.triggers.clear()
        self.event_pids.set((), ())

    def free(self) -> None:
        """Give its memory back, after `stop`, and after the guest has no pointer to it."""
        self.ring.settle()
        self.pids.free()
        self._tables.free()
        self.ring.release()
        self._pool.give(self._address)

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now, with switches of its own."""
        return self._events.events

    @property
    def triggered(self) -> Sequence[Triggered]:
        """All events that can have triggers."""
        return [*self.events, self.marker]

    @property
    def writing(self) -> bool:
        """Whether its tracer or an event is on."""
        return self.tracer != NOP or self._events.on

    def dump(self, cpu: int | None = None) -> Iterator[str]:
        """Dump the top array: `ftrace_dump` knows no other."""
        return self._top.dump(cpu)

    def allocate_snapshot(self) -> None:
        """Make a spare buffer if none exists."""
        self.snapshot.allocate()

    def hist_names(self) -> Names:
        """Return the names that histograms of events show."""
        return self._top.hist_names()

    def synth_event(self, name: str) -> SynthEvent | None:
        """Return a synthetic event."""
        return self._top.synth_event(name)

    def synth_address(self, event: SynthEvent) -> int:
        """Return the address of a synthetic event's `struct synth_event`."""
        return self._top.synth_address(event)

    def context(
        self, in_buffer: int = 0, overrun: int = 0, section: MaxTrace | None = None
    ) -> TextContext:
        """Return what the rows of events need besides the events."""
        events = self._top.context()
        return replace(
            super().context(in_buffer, overrun, section),
            **{name: getattr(events, name) for name in ("fprobes", "syscalls", "events")},
        )

    def tracers(self) -> tuple[str, ...]:
        """Return the names of the tracers that instances can have."""
        return (FUNCTION, NOP) if self.ops is not None else (NOP,)

    def set_tracer(self, name: str) -> None:
        """Switch to the tracer `name` and empty the buffer; no effect if it is on already.

        Raises `TracefsError` (EINVAL: no such tracer) and `FtraceBug`, after which the tracer and
        the buffer are the old ones.
        """
        if name not in self.tracers():
            raise TracefsError(errno.EINVAL)
        if name == self.tracer:
            return
        if self.ftrace.disabled:
            # As for the top array: sites stay as they are, and only `function` still records calls.
            self.tracer = name
            self.ring.set_function_off(name != FUNCTION)
            self.ring.reset()
            self._top.follow_others()
            return
        with self.ftrace.change() as undo:
            if self.tracer == NOP:
                kept = self.ring.exchange([Contents() for _ in self.ring.cpus])
                undo.callback(self.ring.exchange, kept)
                self.ring.reset()
            undo.callback(setattr, self, "tracer", self.tracer)
            self.tracer = name
            self._update_registration(undo)
        if name == NOP:
            self.ring.reset()
        self._top.follow_others()

    @property
    def all_options(self) -> Mapping[str, bool]:
        """All options, including those of every tracer, and whether they are on."""
        return {**self.options, **self.function_options, **self.nop_options}

    @property
    def tracer_options(self) -> Mapping[str, bool]:
        """The options of the current tracer."""
        return self.function_options if self.tracer == FUNCTION else self.nop_options

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL: no such option) and `FtraceBug`."""
        super().set_option(name, value)
        self._top.follow_others()
