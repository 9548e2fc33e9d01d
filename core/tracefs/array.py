"""A trace array: a buffer, the tracer that fills it, its filters and its options.

This is the kernel's `struct trace_array`; the top of the tree shows the first one. Its
files read and change it. It changes the guest only through `Ftrace` (call sites) and
`RingBuffer` (memory).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from ..abi import SAVED_CMDLINES, saved_cmdline
from ..arch import Addresses
from ..errors import MemoryFault, TracefsError
from ..ftrace.callers import Callers
from ..ftrace.ftrace import Ftrace
from ..ftrace.latency import TRACERS as LATENCY_TRACERS
from ..ftrace.latency import LatencyTracer, MaxTrace
from ..ftrace.ops import FtraceHash, FtraceOps
from ..ftrace.stacktrace import StackTracer
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.contents import Contents
from ..trace.buffer.events import EventTable
from ..trace.buffer.follower import Follower
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.dumptext import dump_text, latency_text
from ..trace.text.eventtext import function_text
from ..trace.text.fieldtexts import cmdlines
from ..trace.text.graphtext import graph_text
from ..trace.text.textcontext import TextContext, TextOptions
from ..trace.text.tracetext import TraceText
from .commands import Commands
from .errorlog import ErrorLog
from .event import TraceEvent
from .fprobes import Fprobes
from .graph import Graph
from .latency import FORMAT, OVERWRITE, Latency
from .profile import Profile
from .snapshot import Snapshot
from .syscalls import Syscalls

NOP = "nop"
FUNCTION = "function"
FUNCTION_GRAPH = "function_graph"
TRACERS = (FUNCTION_GRAPH, *LATENCY_TRACERS, FUNCTION, NOP)
"""All tracers, in the order of available_tracers."""

RECORDING_NAMES = (FUNCTION_GRAPH, *LATENCY_TRACERS, FUNCTION)
"""The tracers during which the guest records names of tasks.

In the kernel, the latency tracers record them themselves, in their own probes.
"""

FUNCTION_TRACE_CALL = "function_trace_call"
"""The guest function that the function tracer registers."""

FUNCTION_STACK_TRACE_CALL = "function_stack_trace_call"
"""The guest function that it registers with the option func_stack_trace."""

LOCAL = "local"
COUNTER = "counter"

MARK_SIZE = 1024
"""Greatest number of bytes of text in one event (TRACE_BUF_SIZE)."""

MARKER_COMM = "sh"
"""Name of the task that writes to trace_marker."""

BUFFER_PERCENT = 50
"""Percentage of a full buffer at which poll first finds a CPU's pipe readable."""

_MARK_OFFSET = 1 << 20  # above the stacks of host calls
_MARK_PAGES = 4

OPTIONS: Mapping[str, bool] = MappingProxyType(
    {
        "print-parent": True,
        "sym-offset": False,
        "sym-addr": False,
        "verbose": False,
        "raw": False,
        "hex": False,
        "annotate": True,
        "context-info": True,
        FORMAT: False,
        OVERWRITE: True,
        "disable_on_free": False,
        "irq-info": True,
        "markers": True,
        "function-trace": True,
    }
)
"""The supported options, in the kernel's order and with its defaults."""

FUNC_STACK_TRACE = "func_stack_trace"
FUNCTION_OPTIONS: Mapping[str, bool] = MappingProxyType({FUNC_STACK_TRACE: False})
"""The options of the function tracer."""

_TEXT = ("print-parent", "sym-offset", "sym-addr", "verbose", "raw", "hex")
_TEXT_OPTIONS = (*_TEXT, "annotate", "context-info", "irq-info")


class TraceArray:
    """The top trace array of a machine."""

    def __init__(
        self, machine: Machine, kallsyms: Kallsyms, ftrace: Ftrace, ring: RingBuffer
    ) -> None:
        self.machine = machine
        self.kallsyms = kallsyms
        self.ftrace = ftrace
        self.ring = ring
        self._follower = Follower(ring)
        self.tracer = NOP
        self.tracing_on = True
        self.clock = LOCAL
        self.tracing_cpumask = (1 << len(machine.vcpus)) - 1
        self.buffer_percent = BUFFER_PERCENT
        self.options = dict(OPTIONS)
        self.function_options = dict(FUNCTION_OPTIONS)
        self.graph = Graph(machine, kallsyms, ftrace)
        self.callers = Callers(machine, ftrace)
        self.stack = StackTracer(machine, ftrace, kallsyms, self.callers)
        function = kallsyms.address(FUNCTION_TRACE_CALL, TRACER)
        self.ops = None if function is None else FtraceOps("global_ops", function, pid=True)
        self.profile = Profile(machine, kallsyms, ftrace, self.graph)
        self.syscalls = Syscalls(machine, kallsyms, ftrace, ring, self._update_record_cmd)
        taken = {f"{event.group}/{event.name}" for event in self.syscalls}
        callbacks = (self._reset_all, self._update_record_cmd)
        self.error_log = ErrorLog(lambda: max(vcpu.ticks for vcpu in machine.vcpus))
        self.fprobes = Fprobes(ftrace, kallsyms, ring, taken, *callbacks, self.error_log)
        self.snapshot = Snapshot(ring, self)
        tracer = LatencyTracer(machine, kallsyms)
        self.latency = Latency(tracer, self.snapshot, machine.memory, kallsyms)
        self.commands = Commands(machine, ftrace, self.snapshot, self)
        self._registered = False

    def save(self) -> Restore:
        """Return a function that restores tracer, events and settings, after `ftrace`."""
        kept = ("tracer", "tracing_on", "clock", "tracing_cpumask", "_registered", "buffer_percent")
        parts = [attributes(self, *kept, "options", "function_options")]
        if self.ops is not None:
            parts.append(self.ops.save())
        owned = (self.graph, self.stack, self.profile, self.syscalls, self.fprobes, self.error_log)
        parts += [each.save() for each in (*owned, self.snapshot, self.latency, self.commands)]
        return in_order(*parts)

    @property
    def cpus(self) -> int:
        """Number of CPUs."""
        return len(self.machine.vcpus)

    def tracers(self) -> tuple[str, ...]:
        """Return the names of the tracers whose code this guest has."""
        there = {NOP: True, FUNCTION: self.ops is not None, FUNCTION_GRAPH: self.graph.available}
        latency = self.ops is not None and self.latency.tracer.available
        return tuple(name for name in TRACERS if there.get(name, latency))

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now."""
        return [*self.syscalls, *self.fprobes]

    def set_tracer(self, name: str) -> None:
        """Switch to the tracer `name` and empty the buffer; no effect if it is on already.

        Raises `TracefsError` (EINVAL: no such tracer, ENODEV: ftrace is off and cannot trace
        returns) and `FtraceBug`, after which the tracer and the buffer are the old ones.
        """
        if name not in TRACERS:
            raise TracefsError(errno.EINVAL)
        if name not in self.tracers():
            self.ftrace.check()  # raises what this kernel lacks
            raise TracefsError(errno.EINVAL)
        self.ring.expand()
        if name == self.tracer:
            return
        if self.ftrace.disabled:
            self._switch_disabled(name)
            return
        try:
            self._switch(name)
        except TracefsError:
            self._switch(NOP)  # tracing_set_tracer() has reset the old tracer by then
            raise

    def set_profile(self, on: bool) -> None:
        """Start the function profiler with empty tables, or stop it.

        The current tracer is not affected. Raises as `Profile.start` and `.stop`.
        """
        if on:
            self.profile.start(self.hash(False), self.hash(True))
        else:
            self.profile.stop()

    def set_tracing_on(self, on: bool) -> None:
        """Start or stop writing events."""
        self.tracing_on = on
        self.commands.probes.set_tracing_on(on)
        self._update_recording()

    def set_cpumask(self, mask: int) -> None:
        """Write events only on the CPUs of `mask`."""
        self.tracing_cpumask = mask & ((1 << self.cpus) - 1)
        self._update_recording()

    @property
    def clocks(self) -> tuple[str, ...]:
        """The clocks that time stamps can use."""
        return (LOCAL, COUNTER)

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns; the clock `counter` gives plain numbers."""
        return self.clock != COUNTER

    def set_clock(self, name: str) -> None:
        """Use another clock for time stamps and empty the buffers.

        Raises `TracefsError` (EINVAL) if no clock has that name.
        """
        if name not in self.clocks:
            raise TracefsError(errno.EINVAL)
        self.clock = name
        self.ring.set_counter(name == COUNTER)
        self._reset_all()

    def mark(self, text: str) -> None:
        """Make the guest write `text` as events, one for each `MARK_SIZE` bytes.

        Raises `TracefsError` (EBADF: recording is off, ENODEV: the kernel does not support
        it) and `GuestError`.
        """
        function = self.kallsyms.address("tracing_mark_write", TRACER)
        if function is None:
            raise TracefsError(errno.ENODEV)
        memory = self.machine.memory
        place = self.machine.port.facts.map.host_stack + _MARK_OFFSET
        if memory.region_at(place) is None:
            memory.map(place, MARK_SIZE * _MARK_PAGES, "trace_marker", executable=False)
        data = text.encode("utf-8", "surrogateescape")
        if not data.endswith(b"\n"):
            data += b"\n"
        for start in range(0, len(data), MARK_SIZE):
            part = data[start : start + MARK_SIZE]
            memory.write(place, part)
            result = self.machine.requests.call(function, (place, len(part)), MARKER_COMM)
            if result >> (8 * memory.pointer_size - 1):
                raise TracefsError(errno.EBADF)

    @property
    def all_options(self) -> Mapping[str, bool]:
        """All options, including those of every tracer, and whether they are on."""
        return {**self.options, **self.graph.options, **self.function_options}

    @property
    def tracer_options(self) -> Mapping[str, bool]:
        """The options of the current tracer."""
        own = {FUNCTION_GRAPH: self.graph.options, FUNCTION: self.function_options}
        return own.get(self.tracer, {})

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL: no such option) and `FtraceBug`."""
        if name in self.graph.options:
            self.graph.set_option(name, value)
            return
        if name in self.function_options:
            self._set_function_option(name, value)
            return
        if name not in self.options or (name == OVERWRITE and self.latency.on and not value):
            raise TracefsError(errno.EINVAL)
        with self.ftrace.change() as undo:
            undo.callback(self.options.__setitem__, name, self.options[name])
            self.options[name] = value
            if name == "function-trace":
                self._update_registration(undo)
        if name == OVERWRITE:
            self.ring.set_overwrite(value)

    def _set_function_option(self, name: str, value: bool) -> None:
        """Change the function that the tracer registers; if it is on, register it again."""
        with self.ftrace.change() as undo:
            undo.callback(self.function_options.__setitem__, name, self.function_options[name])
            self.function_options[name] = value
            if self.ops is None or not self._registered:
                return
            self.ftrace.unregister(self.ops)
            self._choose_function(self.ops, undo)
            self.ftrace.register(self.ops)

    def _choose_function(self, ops: FtraceOps, undo: ExitStack) -> None:
        """Set the guest function that call sites call for the current tracer."""
        stack = self.function_options[FUNC_STACK_TRACE]
        called = FUNCTION_STACK_TRACE_CALL if stack else FUNCTION_TRACE_CALL
        function = self.kallsyms.address(called, TRACER)
        if self.tracer in LATENCY_TRACERS:
            function = self.latency.tracer.function(self.tracer)
        if function is not None:
            undo.callback(setattr, ops, "func", ops.func)
            ops.func = function

    def hash(self, notrace: bool) -> FtraceHash:
        """Return the functions to trace, or with `notrace` those not to trace."""
        if self.ops is None:
            return FtraceHash()
        return self.ops.notrace_hash if notrace else self.ops.filter_hash

    def set_hash(self, notrace: bool, chosen: FtraceHash) -> None:
        """Choose functions; while the tracer is on, sites change at once. Raises `FtraceBug`."""
        if self.ops is None:
            self.ftrace.check()  # raises what this kernel lacks
            raise TracefsError(errno.ENODEV)
        with self.ftrace.change():
            if notrace:
                self.ftrace.set_hashes(self.ops, notrace_hash=chosen)
            else:
                self.ftrace.set_hashes(self.ops, filter_hash=chosen)
            self.graph.set_hashes(self.ops.filter_hash, self.ops.notrace_hash)

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all hashes, registered or not."""
        if self.ops is not None:
            self.ops.filter_hash = self.ops.filter_hash.forget(ips)
            self.ops.notrace_hash = self.ops.notrace_hash.forget(ips)
        self.graph.forget(ips)
        self.commands.forget(ips)
        self.stack.forget(ips)

    def cmdlines(self) -> Mapping[int, str]:
        """Return the names of tasks by pid, as the guest saved them."""
        address = self.kallsyms.address("saved_cmdlines")
        if address is None:
            return {}
        byteorder = self.machine.port.facts.byteorder
        size = SAVED_CMDLINES * saved_cmdline(byteorder).itemsize
        try:
            return cmdlines(self.machine.memory.read(address, size), byteorder)
        except MemoryFault:
            return {}

    def text(self, cpu: int | None = None) -> TraceText:
        """Return the events of all buffers, or of `cpu`, as text; the header counts all CPUs.

        While a latency tracer is on, they are those of the longest section.
        """
        if self.latency.on:
            shown = self.latency.shown(cpu)
            context = self.context(shown.present, shown.overrun, shown.section)
            return self.as_text(shown.table, context)
        table = self.ring.events(cpu)
        present = len(table) if cpu is None else len(self.ring.events())
        return self.as_text(table, self.context(present, self.ring.lost(present)))

    def follow(self) -> TraceText:
        """Like `text`, but decode only what is new since the last call."""
        if self.latency.on:
            return self.text()
        table = self._follower.events()
        return self.as_text(table, self.context(len(table), self.ring.lost(len(table))))

    def consume(self, cpu: int | None = None) -> Iterator[str]:
        """Take the events out of all buffers, or out of that of `cpu`; yield pieces of text."""
        taken = self.ring.consume(cpu)
        yield from self.as_text(taken.table, self.context()).body(taken.lost)

    def clear(self, cpu: int | None = None) -> None:
        """Drop the events that `text` returns."""
        if self.latency.on:
            self.snapshot.clear(cpu)
        else:
            self.ring.reset(cpu)

    def dump(self, cpu: int | None = None) -> Iterator[str]:
        """Like `consume`, in the form of the kernel's log."""
        overran = self.ring.overrun() > 0
        taken = self.ring.consume(cpu)
        context = replace(self.context(), overran=overran)
        if self.tracer == FUNCTION_GRAPH:
            text = self.as_text(taken.table, context)
        else:
            text = dump_text(taken.table, context, self.ring.time_start)
        yield from text.body(taken.lost)

    def as_text(self, table: EventTable, context: TextContext) -> TraceText:
        """Return the events as the current tracer prints them."""
        if self.tracer == FUNCTION_GRAPH:
            bounds = [self.kallsyms.address(f"__irqentry_text_{end}") for end in ("start", "end")]
            irq_text = range(bounds[0] or 0, bounds[1] or 0)
            return graph_text(table, context, self.graph.text_options, irq_text)
        if context.latency is not None:
            return latency_text(table, context)
        return function_text(table, context)

    def context(
        self, in_buffer: int = 0, overrun: int = 0, section: MaxTrace | None = None
    ) -> TextContext:
        """Return what the rows of events need besides the events.

        `section` is the one whose events are shown, if they belong to one.
        """
        latency = None
        if self.options[FORMAT]:
            latency = self.latency.format(section or MaxTrace(time_start=self.ring.time_start))
        options = {name.replace("-", "_"): self.options[name] for name in _TEXT_OPTIONS}
        return TextContext(
            symbols=self.kallsyms,
            options=TextOptions(**options),
            tracer=self.tracer,
            cpus=self.cpus,
            pointer_size=self.machine.port.facts.pointer_size,
            cmdlines=self.cmdlines(),
            clock_in_ns=self.clock_in_ns,
            in_buffer=in_buffer,
            written=in_buffer + overrun,
            ftrace_dead=bool(self.ftrace.disabled),
            text_prefix=self.machine.port.facts.abi.text_prefix,
            overran=overrun > 0,
            fprobes=self.fprobes.by_number(),
            syscalls=self.syscalls.by_number,
            latency=latency,
        )

    def _reset_all(self) -> None:
        """Drop all events, including those of the snapshot."""
        self.ring.reset()
        self.snapshot.clear()

    def _switch(self, name: str) -> None:
        """Switch off the tracer, switch `name` on, and empty the buffer."""
        fresh, patcher = self.tracer == NOP, self.ftrace.text.patcher
        after = partial(self._switch_latency, name, reset=not fresh)
        with patcher.followed(after), self.ftrace.change() as undo:
            # Called last: the tracer is the old one by then.
            undo.callback(self._update_record_cmd)
            undo.callback(setattr, self, "tracer", self.tracer)
            if fresh:
                # As in tracer_init(): what is traced while sites are enabled stays.
                kept = self.ring.exchange([Contents() for _ in self.ring.cpus])
                undo.callback(self.ring.exchange, kept)
                self.ring.reset()
            for each in dict.fromkeys((NOP, name)):
                self.tracer = each
                self._update_registration(undo)
            self._update_record_cmd()
        after()

    def _switch_latency(self, name: str, reset: bool = True) -> None:
        """Stop the latency tracer, empty the buffer if asked, and start `name` if it is one."""
        if self.latency.on:
            self.latency.stop(self.options)
        if reset:
            self.ring.reset()
        if name in LATENCY_TRACERS:
            self.latency.start(name, self.graph.settings.thresh, self.options)
        self.ring.set_overwrite(self.options[OVERWRITE])

    def _switch_disabled(self, name: str) -> None:
        """Switch while ftrace is off: sites stay as they are, and only `function` calls on.

        As in Linux, the tracer that stops writes nothing more, `function` writes what sites
        that are still patched call, and `function_graph` leaves `nop` (ENODEV).
        """
        if self.tracer == FUNCTION_GRAPH:
            with suppress(TracefsError):
                self.graph.stop()
        self.tracer = NOP if name == FUNCTION_GRAPH else name
        self.ring.set_function_off(name != FUNCTION)
        self._update_record_cmd()
        self._switch_latency(self.tracer)
        if name == FUNCTION_GRAPH:
            raise TracefsError(errno.ENODEV)

    def _update_registration(self, undo: ExitStack) -> None:
        """Register or unregister the ops, according to tracer and options."""
        graph = self.tracer == FUNCTION_GRAPH
        if graph != self.graph.tracing:
            if graph:
                self.graph.start(self.hash(False), self.hash(True))
            else:
                self.graph.stop()
        wanted = self.tracer in (FUNCTION, *LATENCY_TRACERS) and self.options["function-trace"]
        if self.ops is None or wanted == self._registered:
            return
        if wanted:
            self._choose_function(self.ops, undo)
            self.ftrace.register(self.ops)
        else:
            self.ftrace.unregister(self.ops)
        undo.callback(setattr, self, "_registered", self._registered)
        self._registered = wanted

    def _update_record_cmd(self) -> None:
        """Record names of tasks while a tracer or event is on (`tracing_start_cmdline_record`)."""
        tracing = self.tracer in RECORDING_NAMES or any(event.on for event in self.events)
        self.ring.set_record_cmd(tracing)

    def _update_recording(self) -> None:
        for cpu in range(self.cpus):
            on = self.tracing_on and bool(self.tracing_cpumask >> cpu & 1)
            self.ring.set_recording(on, cpu)
