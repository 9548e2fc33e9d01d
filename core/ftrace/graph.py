"""The function graph tracer: its text, and its table in the guest.

While it is on, the slot `ftrace_graph_call` inside ftrace_caller calls
ftrace_graph_caller, which has the traced function return to return_to_handler;
what is then done is the guest's (arches/guest/tracer/fgraph.c). The sites follow
an ops of its own, whose function does nothing. When it goes off, functions that
are on their way return as they were to: return_to_handler stays. The profiler
(`profile.py`) gets its calls and returns in the same way; one of the two at a time
(`register_ftrace_graph`).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from .. import abi
from ..errors import DynftraceError, TracefsError
from ..machine.machine import Machine
from .entry import GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER
from .ftrace import Ftrace
from .ops import FtraceHash, FtraceOps
from .opslist import SiteArea, sites_of
from .tracepoint import Tracepoint

LABELS = (GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER)
"""What entry.S exports for it."""

CONTROL = "fgraph"
"""The guest's `struct fgraph_control`."""

STUB = "ftrace_graph_stub"
"""The function of its ops."""

SCHED_SWITCH = ("__tracepoint_sched_switch", "ftrace_graph_probe_sched_switch")
"""The kernel's tracepoint at which sleep is taken out of times, and the tracer's function."""

_PART = 3
"""Of the area for the sites of hashes."""


class GraphUser(Enum):
    """For whom calls and returns are traced (`struct fgraph_ops`)."""

    TRACER = "graph tracer"
    PROFILER = "function profiler"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """What is told of calls, as the files of the graph tracer have it."""

    max_depth: int = 0
    """Of functions in each other, 0 for any."""
    skip_irqs: bool = False
    """Whether functions of hard interrupts are left out."""
    thresh: int = 0
    """Least ns a function must take; with one only returns are told."""
    graph: FtraceHash = field(default_factory=FtraceHash)
    """Functions that are told with all they call; empty for all."""
    notrace: FtraceHash = field(default_factory=FtraceHash)
    """Functions that are left out with all they call."""
    sleep_time: bool = True
    """Whether times count while their task is switched out."""
    graph_time: bool = True
    """Whether a profiled function's time has that of traced callees in it."""


class FunctionGraph:
    """The graph tracer of one machine; `ops` selects its sites."""

    def __init__(self, machine: Machine, ftrace: Ftrace, stub: int) -> None:
        """`stub` is the guest's function `STUB`."""
        facts = machine.port.facts
        self.ops = FtraceOps("graph_ops", stub)
        self.settings = GraphSettings()
        self._user: GraphUser | None = None
        self._sleep_off = 0
        self._ftrace = ftrace
        self._memory = machine.memory
        self._layout = abi.fgraph_control(facts.byteorder)
        self._area = SiteArea(facts, machine.memory, "fgraph_hash", _PART)
        self._switch = Tracepoint.find(machine.memory, ftrace.kallsyms, *SCHED_SWITCH)

    @property
    def user(self) -> GraphUser | None:
        """For whom calls and returns are traced now."""
        return self._user if self.ops in self._ftrace.ops else None

    @property
    def on(self) -> bool:
        """Whether they are."""
        return self.user is not None

    @property
    def available(self) -> bool:
        """Whether the port's entry.S has what it needs."""
        return all(name in self._ftrace.entry.symbols for name in LABELS)

    def start(self, user: GraphUser = GraphUser.TRACER) -> None:
        """Trace calls and returns for `user` (`register_ftrace_graph`).

        Raises `TracefsError` (EBUSY while it is on, ENODEV), `MissingSymbolError` and
        `FtraceBug`, after which it is off.
        """
        if self.on:
            raise TracefsError(errno.EBUSY)
        self._ftrace.set_graph_caller(True)
        try:
            self._ftrace.register(self.ops)
        except DynftraceError:
            if not self._ftrace.disabled:
                self._ftrace.set_graph_caller(False)
            raise
        self._user = user
        self._write()

    def stop(self) -> None:
        """Trace no more (`unregister_ftrace_graph`). Raises `TracefsError` and `FtraceBug`."""
        self._user = None
        self._write()
        self._ftrace.unregister(self.ops)
        self._ftrace.set_graph_caller(False)

    def set_hashes(self, filter_hash: FtraceHash, notrace_hash: FtraceHash) -> None:
        """Trace the functions that these say; sites follow while it is on. Raises `FtraceBug`."""
        self._ftrace.set_hashes(self.ops, filter_hash, notrace_hash)
        self._write()

    def configure(self, settings: GraphSettings) -> None:
        """Tell what `settings` say from now on."""
        self.settings = settings
        self._write()

    def _leave_out_sleep(self) -> int:
        """Have the scheduler tell the tracer of switches while sleep does not count.

        Returns what tells this time from others, 0 while sleep does count.
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
        self._memory.write(entry[CONTROL], table.tobytes())
