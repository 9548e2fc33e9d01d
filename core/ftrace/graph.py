"""The function graph tracer: its text, and its table in the guest.

While it is on, the slot `ftrace_graph_call` inside ftrace_caller calls, or jumps to,
ftrace_graph_caller, which makes the traced function return to return_to_handler. The
guest does the rest (arches/guest/tracer/fgraph.c). The sites follow an ops of its own,
whose function does nothing. Functions that are active when the tracer is switched off
still return through return_to_handler. The profiler (`profile.py`) gets calls and returns
in the same way; only one of the two can be on (`register_ftrace_graph`).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from .. import abi
from ..errors import TracefsError
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from .entry import GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER
from .ftrace import Ftrace
from .ops import FtraceHash, FtraceOps
from .opslist import SiteArea, sites_of
from .tracepoint import Tracepoint

LABELS = (GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER)
"""The labels that entry.S exports for the graph tracer."""

CONTROL = "fgraph"
"""The guest's `struct fgraph_control`."""

GRAPH_STUB = "ftrace_graph_stub"
"""The function of the graph tracer's ops."""

CPU_RET_STACK = "cpu_ret_stack"
"""The guest's ret_stacks of CPUs that run no task yet."""

SCHED_SWITCH = ("__tracepoint_sched_switch", "ftrace_graph_probe_sched_switch")
"""The kernel's tracepoint at which sleep is subtracted, and the function attached to it."""

_PART = 3
"""The graph tracer's part of the area for the sites of hashes."""


class GraphUser(Enum):
    """The user for which calls and returns are traced (`struct fgraph_ops`)."""

    TRACER = "graph tracer"
    PROFILER = "function profiler"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The settings in the files of the graph tracer."""

    max_depth: int = 0
    """Greatest depth of nested functions; 0 means any."""
    skip_irqs: bool = False
    """Whether functions of hard interrupts are not traced."""
    thresh: int = 0
    """Least duration of a traced function in ns; if not 0, only returns are traced."""
    graph: FtraceHash = field(default_factory=FtraceHash)
    """Functions that are traced together with all they call; empty means all."""
    notrace: FtraceHash = field(default_factory=FtraceHash)
    """Functions that are not traced, with all that they call."""
    sleep_time: bool = True
    """Whether durations include the time in which the task is switched out."""
    graph_time: bool = True
    """Whether a profiled function's time includes that of its traced callees."""


class FunctionGraph:
    """The graph tracer of one machine; `ops` selects its sites."""

    def __init__(self, machine: Machine, ftrace: Ftrace, func: int) -> None:
        """`func` is the address of the guest's `GRAPH_STUB`."""
        facts = machine.port.facts
        self.ops = FtraceOps("graph_ops", func)
        self.settings = GraphSettings()
        self._user: GraphUser | None = None
        self._sleep_off = 0
        self._ftrace = ftrace
        self._memory = machine.memory
        self._layout = abi.fgraph_control(facts.byteorder)
        self._area = SiteArea(facts, machine.memory, "fgraph_hash", _PART)
        self._switch = Tracepoint.find(machine.memory, ftrace.kallsyms, *SCHED_SWITCH)
        stacks = ftrace.kallsyms.address(CPU_RET_STACK, TRACER)
        assert stacks is not None
        size = abi.ftrace_ret_stack(facts.byteorder, facts.pointer_size).itemsize
        for vcpu in machine.vcpus:
            if not vcpu.local["ret_stack"]:
                vcpu.local["ret_stack"] = stacks + vcpu.number * size

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the guest's table."""
        kept = attributes(self, "settings", "_user", "_sleep_off")
        return in_order(kept, self.ops.save(), self._area.save())

    @property
    def user(self) -> GraphUser | None:
        """The user for which calls and returns are traced now; None while they are not."""
        return self._user if self.ops in self._ftrace.ops else None

    @property
    def on(self) -> bool:
        """Whether calls and returns are traced."""
        return self.user is not None

    @property
    def available(self) -> bool:
        """Whether the port's entry.S supports the graph tracer."""
        return all(name in self._ftrace.entry.symbols for name in LABELS)

    def start(self, user: GraphUser = GraphUser.TRACER) -> None:
        """Trace calls and returns for `user` (`register_ftrace_graph`).

        Raises `TracefsError` (EBUSY while it is on, ENODEV), `MissingSymbolError` and
        `FtraceBug`, after which it is off.
        """
        if self.on:
            raise TracefsError(errno.EBUSY)
        for name in LABELS:
            self._ftrace.entry.label(name)
        with self._ftrace.change() as undo:
            undo.callback(self._set_user, self._user)
            self._ftrace.register(self.ops)
            self._ftrace.set_graph_caller(True)
            self._set_user(user)

    def stop(self) -> None:
        """Stop tracing (`unregister_ftrace_graph`).

        Raises `FtraceBug`, after which it is still on, and `TracefsError` (ENODEV) if ftrace
        is off: then calls are no longer traced, but the text stays as it is.
        """
        if self._ftrace.disabled:
            self._set_user(None)
        with self._ftrace.change() as undo:
            undo.callback(self._set_user, self._user)
            self._set_user(None)
            self._ftrace.unregister(self.ops)
            self._ftrace.set_graph_caller(False)

    def set_hashes(self, filter_hash: FtraceHash, notrace_hash: FtraceHash) -> None:
        """Select functions; while it is on, the sites follow at once. Raises `FtraceBug`."""
        with self._ftrace.change() as undo:
            undo.callback(self._write)
            self._ftrace.set_hashes(self.ops, filter_hash, notrace_hash)
            self._write()

    def configure(self, settings: GraphSettings) -> None:
        """Use `settings` from now on."""
        self.settings = settings
        self._write()

    def _set_user(self, user: GraphUser | None) -> None:
        """Trace calls and returns for `user` from now on, None for nobody."""
        self._user = user
        self._write()

    def _leave_out_sleep(self) -> int:
        """Attach to the scheduler's tracepoint while durations exclude sleep.

        Return a number that is different each time this is switched on; 0 while off.
        """
        off = self.on and not self.settings.sleep_time
        if self._switch is None:
            return 0
        if off and not self._switch.enabled:
            self._sleep_off += 1
        self._switch.enable(off)
        return self._sleep_off if off else 0

    def _write(self) -> None:
        """Write the guest's table."""
        entry, settings, ops = self._ftrace.entry, self.settings, self.ops
        chosen = [ops.filter_hash, ops.notrace_hash, settings.graph, settings.notrace]
        sites = [sites_of(each) for each in chosen]
        places = self._area.write(sites)
        table = np.zeros((), self._layout)
        table["on"] = self.user is GraphUser.TRACER
        table["max_depth"] = settings.max_depth
        table["skip_irqs"] = settings.skip_irqs
        table["sleep_off"] = self._leave_out_sleep()
        table["graph_off"] = not settings.graph_time
        table["thresh"] = settings.thresh
        table["return_to_handler"] = entry[RETURN_TO_HANDLER]
        fields = (
            *((table["ops"], "filter"), (table["ops"], "notrace")),
            *((table, "graph"), (table, "notrace")),
        )
        for (part, name), place, listed in zip(fields, places, sites, strict=True):
            part[name], part[f"{name}_count"] = place, len(listed)
        table["slow_return"] = not table["on"] or settings.thresh > 0
        selected = settings.max_depth or settings.skip_irqs or any(map(len, sites))
        table["slow_entry"] = table["slow_return"] or bool(selected)
        self._memory.write(entry[CONTROL], table.tobytes())
