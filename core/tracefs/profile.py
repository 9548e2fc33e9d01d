"""The function profiler: function_profile_enabled, and trace_stat/functionN for each CPU.

The profiler gets calls and returns from the machinery of the graph tracer. So only one
of the two is on, and both follow set_ftrace_filter: they use the hashes of the function
tracer (`graph_ops`). If a port lacks that machinery, the profiler is an ordinary user of
calls: it counts hits without times and follows no filter. Source: function_stat_*() and
ftrace_profile_write() in kernel/trace/ftrace.c, kernel/trace/trace_stat.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ..errors import TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.graph import GraphUser
from ..ftrace.ops import FtraceHash, FtraceOps
from ..ftrace.profile import CALL, ProfileTables, variance
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.text.graphformat import duration_text
from .graph import Graph
from .number import boolean
from .tree import Directory, File, Node

HITS_HEADER = """\
  Function                               Hit
  --------                               ---
"""

HEADER = """\
  Function                               Hit    Time            Avg             s^2
  --------                               ---    ----            ---             ---
"""


class Profile:
    """The profiler of a machine."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms, ftrace: Ftrace, graph: Graph) -> None:
        self._ftrace = ftrace
        self._graph = graph
        self._tables = ProfileTables(machine, ftrace)
        self._counting = False
        function = kallsyms.address(CALL, TRACER)
        self._ops = None if function is None else FtraceOps("ftrace_profile_ops", function)

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the tables."""
        return in_order(attributes(self, "_counting"), self._tables.save())

    @property
    def on(self) -> bool:
        """Whether functions are profiled."""
        return self._graph.profiling or (self._counting and self._ops in self._ftrace.ops)

    @property
    def timed(self) -> bool:
        """Whether times are measured; else only hits are counted."""
        return self._graph.available

    def start(self, filter_hash: FtraceHash, notrace_hash: FtraceHash) -> None:
        """Start counting from 0; no effect if the profiler is on.

        Raises `TracefsError` (EBUSY while the graph tracer is on, although the tables are
        then empty; ENODEV, ENOMEM), `MissingSymbolError` and `FtraceBug`.
        """
        if self.on:
            return
        self._ftrace.check()
        if self._ops is None:
            raise TracefsError(errno.ENODEV)
        self._tables.reset()
        if self.timed:
            self._graph.start(filter_hash, notrace_hash, GraphUser.PROFILER)
        else:
            self._ftrace.register(self._ops)
            self._counting = True
        self._tables.count(True)

    def stop(self) -> None:
        """Stop counting; the counts stay. Keeps counting if it raises `FtraceBug`."""
        if not self.on:
            return
        # unregister_ftrace_graph() returns nothing either: a bug may have shut ftrace off.
        with suppress(TracefsError):
            if self._graph.profiling:
                self._graph.stop()
            elif self._ops is not None:
                self._ftrace.unregister(self._ops)
        self._counting = False
        self._tables.count(False)

    def rows(self, cpu: int) -> NDArray[np.void]:
        """Return the functions that ran on `cpu` as `ProfileTables.rows`, in file order."""
        return self._tables.rows(cpu, "time" if self.timed else "counter")

    def hits(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return addresses and their hits, as `ProfileTables.hits`."""
        return self._tables.hits()


class FunctionProfileEnabled(File):
    """Whether functions are profiled."""

    mode = 0o644

    def __init__(self, profile: Profile, switch: Callable[[bool], None]) -> None:
        self._profile = profile
        self._switch = switch

    def read(self) -> str:
        """Return 1 or 0."""
        return f"{int(self._profile.on)}\n"

    def write(self, text: str) -> None:
        """Stop with 0, start counting from 0 with any other number."""
        self._switch(boolean(text))


class FunctionStat(File):
    """The counts of one CPU; the function that took longest is first."""

    mode = 0o644

    def __init__(
        self, profile: Profile, graph: Graph, kallsyms: Kallsyms, bits: int, cpu: int
    ) -> None:
        """`bits` is the width of the kernel's long."""
        self._profile = profile
        self._graph = graph
        self._kallsyms = kallsyms
        self._bits = bits
        self._cpu = cpu

    def read(self) -> str:
        """Return a line a function, except those whose average is below tracing_thresh."""
        rows, timed = self._profile.rows(self._cpu), self._profile.timed
        lines = [HEADER if timed else HITS_HEADER]
        names = self._kallsyms.names_of(rows["ip"])
        for name, (_, hits, time, squared) in zip(names, rows.tolist(), strict=True):
            line = f"  {name:<30.30s}  {hits:10d}"
            if timed:
                average = time // hits
                if average < self._graph.settings.thresh:
                    continue
                columns = (time, average, variance(hits, time, squared, self._bits))
                line = "    ".join([line, *map(duration_text, columns)])
            lines.append(line + "\n")
        return "".join(lines)


def files(
    profile: Profile,
    switch: Callable[[bool], None],
    graph: Graph,
    machine: Machine,
    kallsyms: Kallsyms,
) -> Mapping[str, Node]:
    """Return the files of this module by name; `switch` starts and stops the profiler."""
    bits = 8 * machine.port.facts.pointer_size
    stats = {
        f"function{cpu}": FunctionStat(profile, graph, kallsyms, bits, cpu)
        for cpu in range(len(machine.vcpus))
    }
    return {
        "function_profile_enabled": FunctionProfileEnabled(profile, switch),
        "trace_stat": Directory(stats),
    }
