"""The latency tracers of a trace array: its maximum, and how it is shown.

The file `trace` shows the section in the spare buffer, in the latency format. Events of that
buffer from before the section are left over from an earlier use, and are not shown. Source:
__tracing_open(), tracing_iter_reset(), get_total_entries() and tracing_max_lat_fops in
kernel/trace/trace.c, and __irqsoff_tracer_init() in kernel/trace/trace_irqsoff.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..distinct import distinct
from ..errors import MemoryFault, TracefsError
from ..ftrace.latency import LatencyTracer, MaxTrace
from ..kernel.kallsyms import Kallsyms
from ..machine.memory import Memory
from ..memento import Restore, attributes
from ..trace.buffer.events import EventTable
from .number import kstrtoul
from .snapshot import Snapshot
from .tree import File, Node

FORMAT = "latency-format"
OVERWRITE = "overwrite"
FORCED = (OVERWRITE, FORMAT)
"""Options forced on while a latency tracer is on: a buffer that drops events would cut sections."""

_RELEASE_MAX = 64


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The events of the section that is kept."""

    table: EventTable
    section: MaxTrace
    present: int
    """Number of events of all CPUs."""
    overrun: int
    """Number of events of the section that were overwritten."""


class Latency:
    """The latency tracers of one trace array."""

    def __init__(
        self, tracer: LatencyTracer, snapshot: Snapshot, memory: Memory, kallsyms: Kallsyms
    ) -> None:
        self.tracer = tracer
        self._snapshot = snapshot
        self._memory = memory
        self._kallsyms = kallsyms
        self._saved: Mapping[str, bool] = MappingProxyType({})

    def save(self) -> Restore:
        """Return a function that restores the saved options; the machine saves the rest."""
        return attributes(self, "_saved")

    @property
    def on(self) -> bool:
        """Whether a latency tracer is the current tracer."""
        return self._snapshot.holds_max

    def start(self, name: str, thresh: int, options: MutableMapping[str, bool]) -> None:
        """Start the tracer `name` with an empty spare buffer, and force its options."""
        self._saved = {each: options[each] for each in FORCED}
        options.update(dict.fromkeys(FORCED, True))
        self._snapshot.allocate()
        self._snapshot.clear()
        self._snapshot.holds_max = True
        self.tracer.start(name, thresh)

    def stop(self, options: MutableMapping[str, bool]) -> None:
        """Stop it, free the spare buffer, and restore the options."""
        self.tracer.stop()
        self._snapshot.holds_max = False
        self._snapshot.free()
        options.update(self._saved)
        self._saved = MappingProxyType({})

    def shown(self, cpu: int | None = None) -> Shown:
        """Return the events of the section in the spare buffer, of one CPU or of all."""
        table, section = self._snapshot.table(), self.tracer.kept
        begun = table.events["ts"] >= np.uint64(section.time_start)
        mine = table.take(np.flatnonzero(begun))
        cpus = distinct(mine.events["cpu"]).tolist()
        early = set(distinct(table.events["cpu"][~begun]).tolist())
        overrun = sum(self._snapshot.lost(table, each) for each in cpus if each not in early)
        present = len(mine)
        if cpu is not None:
            mine = mine.take(np.flatnonzero(mine.events["cpu"] == cpu))
        return Shown(mine, section, present, overrun)

    def pages(self) -> Sequence[NDArray[np.uint8]]:
        """Return the pages for readers of each CPU, with the events that `shown` returns."""
        return self._snapshot.pages_since(self.tracer.kept.time_start)

    @property
    def release(self) -> str:
        """The kernel's release; "unknown" without one."""
        return kernel_release(self._memory, self._kallsyms)


def kernel_release(memory: Memory, kallsyms: Kallsyms) -> str:
    """Return the kernel's release, from its vermagic; "unknown" without one."""
    address = kallsyms.address("vermagic")
    try:
        data = b"" if address is None else memory.read(address, _RELEASE_MAX)
    except MemoryFault:
        data = b""
    words = data.split(b"\0")[0].decode("ascii", "backslashreplace").split()
    return words[0] if words else "unknown"


class TracingMaxLatency(File):
    """The longest latency in us; a number written is what the next one must exceed."""

    mode = 0o644

    def __init__(self, tracer: LatencyTracer) -> None:
        self._tracer = tracer

    def read(self) -> str:
        """Return the number."""
        if not self._tracer.available:
            return "0\n"
        return f"{self._tracer.max_latency // 1000}\n"

    def write(self, text: str) -> None:
        """Change the number. Raises `TracefsError` (ENODEV) if the guest has no such tracer."""
        us = kstrtoul(text)
        if not self._tracer.available:
            raise TracefsError(errno.ENODEV)
        self._tracer.set_max_latency(us * 1000)


def files(latency: Latency) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"tracing_max_latency": TracingMaxLatency(latency.tracer)}
