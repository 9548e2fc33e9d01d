"""The latency tracers irqsoff, preemptoff, preemptirqsoff, wakeup and wakeup_rt: the host's side.

While one of the first three is on, the guest's kernel reports each change of its interrupt and
preemption state to six tracepoints. The other two use the scheduler's tracepoints. Their functions
in the tracer (`arches/guest/tracer/trace_irqsoff.c`, `trace_sched_wakeup.c`) measure the sections
between these reports, and keep the longest one in the spare buffer. The host switches them on and
off, sets their limits, and reads their description of the kept section. Source:
kernel/trace/trace_irqsoff.c and trace_sched_wakeup.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .. import abi
from ..abi import LATENCY_CPUS, TraceLatency
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from .settle import settle
from .tracepoint import Tracepoint

_CRITICAL = {
    "irq_disable": "tracer_hardirqs_off",
    "irq_enable": "tracer_hardirqs_on",
    "preempt_disable": "tracer_preempt_off",
    "preempt_enable": "tracer_preempt_on",
    "critical_start": "tracer_start_critical",
    "critical_stop": "tracer_stop_critical",
}
_WAKEUP = {
    "sched_wakeup": "probe_wakeup",
    "sched_migrate_task": "probe_wakeup_migrate_task",
    "sched_switch_task": "probe_wakeup_sched_switch",
}
"""Tracepoints, and the guest functions that a tracer attaches to them."""

_NONE = TraceLatency(0)


@dataclass(frozen=True, slots=True)
class Kind:
    """A latency tracer: what it measures, and how."""

    points: Mapping[str, str]
    function: str
    """The guest function that it registers for function events."""
    critical: TraceLatency = _NONE
    """What a critical section is; none for the wakeup tracers."""
    rt_only: bool = False
    """Whether only real-time tasks count."""


TRACERS: Mapping[str, Kind] = MappingProxyType(
    {
        "wakeup_rt": Kind(_WAKEUP, "wakeup_tracer_call", rt_only=True),
        "wakeup": Kind(_WAKEUP, "wakeup_tracer_call"),
        "preemptirqsoff": Kind(
            _CRITICAL, "irqsoff_tracer_call", TraceLatency.IRQS_OFF | TraceLatency.PREEMPT_OFF
        ),
        "preemptoff": Kind(_CRITICAL, "irqsoff_tracer_call", TraceLatency.PREEMPT_OFF),
        "irqsoff": Kind(_CRITICAL, "irqsoff_tracer_call", TraceLatency.IRQS_OFF),
    }
)
"""The tracers, in the order of available_tracers."""

TRACE_IDLE = "latency_trace_idle"
"""The guest variable that makes sleep count as a latency."""

_NO_PRIO = 0x7FFF_FFFF
"""Priority below that of any task."""


@dataclass(frozen=True, slots=True)
class MaxTrace:
    """The guest's description of the section in the spare buffer; zeros before the first."""

    latency: int = 0
    """Its length in ns."""
    time_start: int = 0
    """When it began, in units of the trace clock."""
    start: int = 0
    """Address of the code that began it."""
    end: int = 0
    """Address of the code that ended it."""
    cpu: int = 0
    pid: int = 0
    """Pid of the task that ended it, or that woke up."""
    comm: str = ""
    nice: int = 0
    policy: int = 0
    rt_priority: int = 0


class LatencyTracer:
    """The latency tracers of one machine; at most one is on."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms) -> None:
        self._machine = machine
        self._memory = machine.memory
        self._kallsyms = kallsyms
        self._points = {
            name: Tracepoint.find(machine.memory, kallsyms, f"__tracepoint_{name}", function)
            for name, function in {**_CRITICAL, **_WAKEUP}.items()
        }
        order = machine.port.facts.byteorder
        self._control = abi.latency_control(order)
        self._sections = abi.critical_section(order)
        self._max_trace = abi.max_trace_data(order)
        self._wakeup = abi.wakeup_control(order)

    def function(self, name: str) -> int | None:
        """Return the address of the tracer's function for call sites, or None."""
        if any(self._points[point] is None for point in TRACERS[name].points):
            return None
        return self._kallsyms.address(TRACERS[name].function, TRACER)

    @property
    def available(self) -> bool:
        """Whether the guest has all of these tracers."""
        return all(self.function(name) is not None for name in TRACERS)

    def start(self, name: str, thresh: int) -> None:
        """Start the tracer `name`, with no maximum yet; `thresh` is in ns."""
        kind = TRACERS[name]
        settle(self._machine)
        self._clear("latency", self._control.itemsize)
        self._clear("critical_sections", LATENCY_CPUS * self._sections.itemsize)
        self._clear("max_trace", self._max_trace.itemsize)
        self.set_thresh(thresh)
        self._clear("wakeup", self._wakeup.itemsize)
        self._write("wakeup", self._wakeup, "rt_only", kind.rt_only)
        self._write("wakeup", self._wakeup, "prio", _NO_PRIO)
        for point in self._attached(kind.points):
            point.enable(True)
        self._set_type(kind.critical)

    def stop(self) -> None:
        """Stop measuring; the maximum stays."""
        self._set_type(_NONE)
        for point in self._attached(self._points):
            point.enable(False)

    @property
    def max_latency(self) -> int:
        """Longest section so far, in ns, or the limit written instead."""
        return self._read("latency", self._control, "max_latency")

    def set_max_latency(self, ns: int) -> None:
        """Keep the next section longer than this."""
        self._write("latency", self._control, "max_latency", ns)

    def set_thresh(self, ns: int) -> None:
        """Keep each section of at least this length instead; 0: keep only a new maximum."""
        if self.available:
            self._write("latency", self._control, "thresh", ns)

    @property
    def kept(self) -> MaxTrace:
        """The guest's description of the section in the spare buffer."""
        address = self._address("max_trace")
        data = self._memory.read(address, self._max_trace.itemsize)
        (row,) = np.frombuffer(data, self._max_trace)
        return MaxTrace(
            latency=int(row["saved_latency"]),
            time_start=int(row["time_start"]),
            start=int(row["critical_start"]),
            end=int(row["critical_end"]),
            cpu=int(row["cpu"]),
            pid=int(row["pid"]),
            comm=row["comm"].decode("ascii", "backslashreplace"),
            nice=int(row["nice"]),
            policy=int(row["policy"]),
            rt_priority=int(row["rt_priority"]),
        )

    @property
    def traces_idle(self) -> bool | None:
        """Whether sleep counts as a latency; None if the kernel lacks `TRACE_IDLE`."""
        address = self._kallsyms.address(TRACE_IDLE)
        return None if address is None else bool(self._memory.read_int(address, 4))

    def set_traces_idle(self, on: bool) -> None:
        """Let sleep count as a latency, or not. Raises `KeyError` if the kernel cannot."""
        address = self._kallsyms.address(TRACE_IDLE)
        if address is None:
            raise KeyError(TRACE_IDLE)
        self._memory.write_int(address, on, 4)

    def _attached(self, names: Iterable[str]) -> Iterator[Tracepoint]:
        found = (self._points[name] for name in names)
        return (point for point in found if point is not None)

    def _set_type(self, kind: TraceLatency) -> None:
        for vcpu in self._machine.vcpus:
            vcpu.local["trace_type"] = kind

    def _address(self, name: str) -> int:
        address = self._kallsyms.address(name, TRACER)
        if address is None:
            raise KeyError(name)
        return address

    def _clear(self, name: str, size: int) -> None:
        self._memory.write(self._address(name), bytes(size))

    def _read(self, name: str, layout: np.dtype[np.void], field: str) -> int:
        data = self._memory.read(self._address(name), layout.itemsize)
        return int(np.frombuffer(data, layout)[0][field])

    def _write(self, name: str, layout: np.dtype[np.void], field: str, value: int) -> None:
        assert layout.fields is not None
        dtype, offset, *_ = layout.fields[field]
        self._memory.write_int(self._address(name) + offset, value, dtype.itemsize)
