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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses
from ..errors import TracefsError
from ..events.formats import EventFormat
from ..events.hist import Hist
from ..events.histtext import Names
from ..events.synth import SynthEvent
from ..ftrace.callers import Callers
from ..ftrace.ftrace import Ftrace
from ..ftrace.guestarray import GuestArray
from ..ftrace.kprobes import Kprobes
from ..ftrace.latency import TRACERS as LATENCY_TRACERS
from ..ftrace.latency import LatencyTracer, MaxTrace
from ..ftrace.ops import FtraceHash, FtraceOps
from ..ftrace.opslist import SiteArea
from ..ftrace.pids import followed
from ..ftrace.probes import PART as PROBES_PART
from ..ftrace.stacktrace import StackTracer
from ..ftrace.tracepoint import Tracepoint
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.contents import Contents
from ..trace.buffer.events import EventTable
from ..trace.buffer.follower import Follower
from ..trace.buffer.rawpages import unread_pages
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.graphformat import graph_text
from ..trace.text.latencyformat import dump_text
from ..trace.text.textcontext import TextContext
from ..trace.text.tracetext import TraceText
from .basearray import FORKS, FUNCTION, NOP, BaseArray
from .commands import Commands
from .dynevents import DynEvents
from .eprobes import EventProbes
from .event import TraceEvent
from .eventdirs import EventDirectories
from .events.eventfile import EventFiles
from .events.kernel import KernelEvents
from .events.marker import MarkerEvent
from .events.pids import EventPids
from .events.synthetic import SynthEvents
from .events.triggers import Triggered
from .fprobes import Fprobes
from .graph import Graph
from .kprobes import KprobeEvents
from .latency import OVERWRITE, Latency
from .pids import Pids
from .printk import TracePrintk
from .probes import EventNumbers, ProbeEvent
from .profile import Profile
from .syscalls import Syscalls

FUNCTION_GRAPH = "function_graph"
TRACERS = (FUNCTION_GRAPH, *LATENCY_TRACERS, FUNCTION, NOP)
"""All tracers, in the order of available_tracers."""

RECORDING_NAMES = (FUNCTION_GRAPH, *LATENCY_TRACERS, FUNCTION)
"""The tracers during which the guest records names of tasks.

In the kernel, the latency tracers record them themselves, in their own probes.
"""

FUNCTION_TRACE_CALL = "function_trace_call"
"""The guest function that the function tracer registers."""


FORK_POINTS = ("__tracepoint_sched_process_fork", "__tracepoint_sched_process_free")
PID_FOLLOW = "ftrace_pid_follow"
"""The guest function that reports forks and exits, and its tracepoints."""


class OtherArray(Protocol):
    """An instance, as far as the top array needs it."""

    @property
    def tracer(self) -> str:
        """Name of the current tracer."""
        ...

    @property
    def options(self) -> Mapping[str, bool]:
        """The options, by name."""
        ...

    @property
    def pids(self) -> Pids:
        """The tasks whose functions it traces."""
        ...

    @property
    def event_pids(self) -> Pids:
        """The tasks whose events it writes."""
        ...

    @property
    def commands(self) -> Commands:
        """The commands of its set_ftrace_filter."""
        ...

    @property
    def triggered(self) -> Sequence[Triggered]:
        """Its events that can have triggers."""
        ...

    @property
    def writing(self) -> bool:
        """Whether a tracer or an event is on."""
        ...

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all hashes."""
        ...


class TraceArray(BaseArray):
    """The top trace array of a machine."""

    def __init__(
        self, machine: Machine, kallsyms: Kallsyms, ftrace: Ftrace, ring: RingBuffer
    ) -> None:
        function = kallsyms.address(FUNCTION_TRACE_CALL, TRACER)
        ops = None if function is None else FtraceOps("global_ops", function, pid=True)
        guest = GuestArray.top(machine.memory, kallsyms)
        super().__init__(machine, kallsyms, ftrace, ring, ops, guest)
        self._follower = Follower(ring)
        self._forks = [
            Tracepoint.find(machine.memory, kallsyms, name, PID_FOLLOW) for name in FORK_POINTS
        ]
        self.others: tuple[OtherArray, ...] = ()
        """The other trace arrays: the instances."""
        self.outside: frozenset[int] = frozenset()
        """Pids that do not end with a guest task: those of processes outside of the guest."""
        self.graph = Graph(machine, kallsyms, ftrace)
        self.callers = Callers(machine, ftrace)
        self.stack = StackTracer(machine, ftrace, kallsyms, self.callers)
        self.profile = Profile(machine, kallsyms, ftrace, self.graph)
        self.event_files = EventFiles(machine, guest, self.error_log)
        self.marker = MarkerEvent(self.event_files, self, machine.port.facts.pointer_size)
        self.syscalls = Syscalls(
            *(machine, kallsyms, ftrace, ring, self.event_files, self),
            self._update_record_cmd,
        )
        self.kernel_events = KernelEvents(
            *(machine, kallsyms, self.event_files, self, self._event_switched)
        )
        self.printk = TracePrintk(
            machine, kallsyms, self.event_files.blocks, lambda: self._event_switched(True)
        )
        self.dynamic_events = DynEvents(self._reset_all)
        kprobes, numbers = Kprobes(machine, kallsyms, ftrace), EventNumbers()
        self.kprobes = KprobeEvents(
            *(kprobes, ftrace, self._event_switched),
            *(self.event_files, self, kallsyms, self.dynamic_events, numbers),
            self.error_log,
        )
        self.eprobes = EventProbes(
            *(kprobes, self.event_files, self, kallsyms, self.dynamic_events, numbers),
            self.error_log,
        )
        self.fprobes = Fprobes(
            *(ftrace, kallsyms, ring, self.event_files, self, self.dynamic_events),
            *(self._update_record_cmd, self.error_log),
        )
        self.synthetic = SynthEvents(
            *(self.event_files, self, self.dynamic_events, self._hists, self._event_switched)
        )
        self.event_directories = EventDirectories(
            machine, kallsyms, self.event_files.blocks, self._defined_events
        )
        self.event_pids = EventPids(self.event_files)
        tracer = LatencyTracer(machine, kallsyms)
        self.latency = Latency(tracer, self.snapshot, machine.memory, kallsyms)
        area = SiteArea(machine.port.facts, machine.memory, "func_probes", PROBES_PART)
        self.commands = Commands(machine, ftrace, self.snapshot, self, guest, area)

    def follow_others(self) -> None:
        """Record names of tasks, and follow forks, if any trace array needs it."""
        self._update_record_cmd()
        options = [self.options, *(each.options for each in self.others)]
        wanted = any(each[name] for each in options for name in FORKS)
        for point in self._forks:
            if point is not None and point.enabled != wanted:
                point.enable(wanted)

    def follow_task(self, pid: int, parent: int) -> None:
        """Add `pid`, which `parent` has forked, to lists of pids, or with 0 remove it."""
        if not parent and pid in self.outside:
            return
        lists: list[Pids] = [self.ftrace.pids] if self.options["function-fork"] else []
        lists += [self.event_pids] if self.options["event-fork"] else []
        lists += [each.pids for each in self.others if each.options["function-fork"]]
        lists += [each.event_pids for each in self.others if each.options["event-fork"]]
        for each in lists:
            pids, notrace = (followed(old, pid, parent) for old in (each.pids, each.notrace))
            if (pids, notrace) != (each.pids, each.notrace):
                with suppress(TracefsError):
                    each.set(pids, notrace)

    def control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Execute the command of the guest's `probe` in its trace array, as `Commands.control`."""
        for commands in (self.commands, *(other.commands for other in self.others)):
            if commands.probes.command_at(probe) is not None:
                return commands.control(cpu, probe, ip, parent_ip)
        return -errno.EINVAL

    def save(self) -> Restore:
        """Return a function that restores tracer, events and settings, after `ftrace`."""
        owned = (self.graph, self.stack, self.profile, self.syscalls, self.dynamic_events)
        owned_too = (
            *(self.marker, self.event_files, self.event_pids, self.kernel_events, self.latency),
            *(self.fprobes, self.kprobes, self.eprobes, self.synthetic, self.event_directories),
            self.printk,
        )
        kept = in_order(attributes(self, "others"), self.commands.save())
        return in_order(super().save(), kept, *(each.save() for each in (*owned, *owned_too)))

    def tracers(self) -> tuple[str, ...]:
        """Return the names of the tracers whose code this guest has."""
        there = {NOP: True, FUNCTION: self.ops is not None, FUNCTION_GRAPH: self.graph.available}
        latency = self.ops is not None and self.latency.tracer.available
        return tuple(name for name in TRACERS if there.get(name, latency))

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now."""
        return [*self.kernel_events, *self.syscalls, *self._defined_events()]

    def _defined_events(self) -> Sequence[TraceEvent]:
        """Return the events that definitions have made."""
        return [*self.fprobes, *self.synthetic, *self._probe_events]

    def _hists(self) -> Iterator[Hist]:
        """Yield the histograms of all events, here and in instances."""
        for events in (self.triggered, *(other.triggered for other in self.others)):
            for event in events:
                yield from event.triggers.hists

    def synth_event(self, name: str) -> SynthEvent | None:
        """Return a synthetic event."""
        found = self.synthetic.find(name)
        return None if found is None else found.definition

    def synth_address(self, event: SynthEvent) -> int:
        """Return the address of a synthetic event's `struct synth_event`."""
        found = self.synthetic.find(event.name)
        assert found is not None
        return found.address

    @property
    def triggered(self) -> Sequence[Triggered]:
        """All events that can have triggers."""
        return [*self.events, self.marker]

    @property
    def writing(self) -> bool:
        """Whether a tracer or an event is on, here or in an instance."""
        own = self.tracer != NOP or any(event.on for event in self.events)
        return own or any(other.writing for other in self.others)

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

    @property
    def all_options(self) -> Mapping[str, bool]:
        """All options, including those of every tracer, and whether they are on."""
        return {
            **self.options,
            **self.graph.options,
            **self.function_options,
            **self.nop_options,
        }

    @property
    def tracer_options(self) -> Mapping[str, bool]:
        """The options of the current tracer."""
        own = {
            FUNCTION_GRAPH: self.graph.options,
            FUNCTION: self.function_options,
            NOP: self.nop_options,
        }
        return own.get(self.tracer, {})

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL: no such option) and `FtraceBug`."""
        if name in self.graph.options:
            self.graph.set_option(name, value)
            return
        if name == OVERWRITE and self.latency.on and not value:
            raise TracefsError(errno.EINVAL)
        super().set_option(name, value)
        self.follow_others()

    def _function(self) -> int | None:
        """Return the guest function for the current tracer; None if the guest lacks it."""
        if self.tracer in LATENCY_TRACERS:
            return self.latency.tracer.function(self.tracer)
        return super()._function()

    def set_hash(self, notrace: bool, chosen: FtraceHash) -> None:
        """Choose functions; while a tracer is on, sites change at once. Raises `FtraceBug`."""
        with self.ftrace.change():
            super().set_hash(notrace, chosen)
            self.graph.set_hashes(self.hash(False), self.hash(True))

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all hashes, registered or not."""
        super().forget(ips)
        for other in self.others:
            other.forget(ips)
            other.commands.forget(ips)
        self.graph.forget(ips)
        self.commands.forget(ips)
        self.stack.forget(ips)

    def text(self, cpu: int | None = None) -> TraceText:
        """Return the events of all buffers, or of `cpu`, as text; the header counts all CPUs.

        While a latency tracer is on, they are those of the longest section.
        """
        if self.latency.on:
            shown = self.latency.shown(cpu)
            context = self.context(shown.present, shown.overrun, shown.section)
            return self.as_text(shown.table, context)
        return super().text(cpu)

    def pages(self) -> Sequence[NDArray[np.uint8]]:
        """Return the pages for readers of each CPU, with the events that `text` returns."""
        if self.latency.on:
            return self.latency.pages()
        ring = self.ring
        return [unread_pages(ring.layout, ring.pages(cpu), ring.head(cpu)[1]) for cpu in ring.cpus]

    def follow(self) -> TraceText:
        """Like `text`, but decode only what is new since the last call."""
        if self.latency.on:
            return self.text()
        table = self._follower.events()
        return self.as_text(table, self.context(len(table), self.ring.lost(len(table))))

    def clear(self, cpu: int | None = None) -> None:
        """Drop the events that `text` returns."""
        if self.latency.on:
            self.snapshot.clear(cpu)
        else:
            super().clear(cpu)

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
        return super().as_text(table, context)

    def context(
        self, in_buffer: int = 0, overrun: int = 0, section: MaxTrace | None = None
    ) -> TextContext:
        """Return what the rows of events need besides the events.

        `section` is the one whose events are shown, if they belong to one.
        """
        return replace(
            super().context(in_buffer, overrun, section),
            fprobes=self.fprobes.by_number(),
            syscalls=self.syscalls.by_number,
            events=self._formats(),
            printk_formats=self.printk.by_address,
        )

    def _switch(self, name: str) -> None:
        """Switch off the tracer, switch `name` on, and empty the buffer."""
        fresh, patcher = self.tracer == NOP, self.ftrace.text.patcher
        after = partial(self._switch_latency, name, reset=not fresh)
        with patcher.followed(after), self.ftrace.change() as undo:
            # Called last: the tracer is the old one by then.
            undo.callback(self._update_record_cmd)
            undo.callback(setattr, self, "tracer", self.tracer)
            if fresh:
                # As in tracer_init(): events traced while sites are enabled stay.
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
        """Switch while ftrace is off: sites stay as they are, and only `function` records calls.

        As in Linux, the old tracer writes no more events, `function` records the calls of sites
        that are still patched, and `function_graph` is refused (ENODEV) and leaves `nop`.
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
        self._register(wanted, undo)

    @property
    def _probe_events(self) -> Sequence[ProbeEvent]:
        return (*self.kprobes.events, *self.eprobes.events)

    def _formats(self) -> Mapping[int, EventFormat]:
        """Return the formats of events, by event type."""
        addresses = self.options["sym-addr"]
        probed = {each.number: each.format(addresses) for each in self._probe_events}
        known = {**self.kernel_events.by_number, **self.synthetic.by_number, **probed}
        return {**known, **self.printk.events}

    def allocate_snapshot(self) -> None:
        """Make a spare buffer if none exists."""
        self.ring.expand()
        self.snapshot.allocate()

    def hist_names(self) -> Names:
        """Return the names that histograms of events show."""
        calls = self.syscalls.by_number.values()

        def symbol(address: int, offset: bool) -> str:
            if offset:
                return self.kallsyms.format(address)
            return self.kallsyms.names_of(np.array([address], np.uint64))[0]

        return Names(symbol, {each.syscall.nr: each.syscall.name for each in calls})

    def _event_switched(self, on: bool) -> None:
        """Prepare the buffers for an event to be enabled, or note that one was disabled."""
        if on:
            self.ring.expand()
        self._update_record_cmd()

    def _update_record_cmd(self) -> None:
        """Record names of tasks while a tracer or event is on (`tracing_start_cmdline_record`)."""
        events = any(event.on for event in self.events)
        tracing = (
            self.tracer in RECORDING_NAMES
            or (events and self.options["record-cmd"])
            or any(other.writing for other in self.others)
            or self.printk.used
        )
        self.ring.set_record_tgid(events and self.options["record-tgid"])
        self.ring.set_record_cmd(tracing)
