"""The function profiler: function_profile_enabled, and trace_stat/functionN for each CPU.

It has its calls and returns from the machinery of the graph tracer, so only one
of them is on, and follows set_ftrace_filter as that does: both have the hashes of
the function tracer (`graph_ops`). Without that machinery it is a user of calls as
any other, has hits alone, and follows no filter. Source: function_stat_*() and
ftrace_profile_write() in kernel/trace/ftrace.c, kernel/trace/trace_stat.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.graph import GraphUser
from ..ftrace.ops import FtraceHash, FtraceOps
from ..ftrace.profile import CALL, ProfileTables, variance
from ..kallsyms import Kallsyms
from ..machine.machine import Machine
from ..trace.graphtext import duration_text
from .graph import Graph
from .number import boolean
from .tree import Directory, File, Node

if TYPE_CHECKING:
    from .array import TraceArray

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
        function = kallsyms.address(CALL)
        self._ops = None if function is None else FtraceOps("ftrace_profile_ops", function)

    @property
    def on(self) -> bool:
        """Whether functions are profiled."""
        return self._graph.profiling or (self._counting and self._ops in self._ftrace.ops)

    @property
    def timed(self) -> bool:
        """Whether there are times, and not hits alone."""
        return self._graph.available

    def start(self, filter_hash: FtraceHash, notrace_hash: FtraceHash) -> None:
        """Count from nothing; one that is on goes on undisturbed.

        Raises `TracefsError` (EBUSY while calls and returns are traced for another, with
        the tables emptied all the same, ENODEV, ENOMEM), `MissingSymbolError` and `FtraceBug`.
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
        """Count no more; what was counted stays. Raises `FtraceBug`."""
        if not self.on:
            return
        self._tables.count(False)
        # Like unregister_ftrace_graph(), which returns nothing: ftrace may be off by now.
        with suppress(TracefsError):
            if self._graph.profiling:
                self._graph.stop()
            elif self._ops is not None:
                self._counting = False
                self._ftrace.unregister(self._ops)

    def rows(self, cpu: int) -> NDArray[np.void]:
        """The functions that ran on `cpu`, as `ProfileTables.rows`, in the order they are told."""
        return self._tables.rows(cpu, "time" if self.timed else "counter")

    def hits(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses and their hits, as `ProfileTables.hits`."""
        return self._tables.hits()


class FunctionProfileEnabled(File):
    """Whether functions are profiled."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """1 or 0."""
        return f"{int(self._array.profile.on)}\n"

    def write(self, text: str) -> None:
        """0 ends it, any other number begins it anew."""
        self._array.set_profile(boolean(text))


class FunctionStat(File):
    """What was counted on one CPU, the function that took longest first."""

    mode = 0o644

    def __init__(self, array: TraceArray, cpu: int) -> None:
        self._array = array
        self._cpu = cpu

    def read(self) -> str:
        """A line a function, without those whose average is below tracing_thresh."""
        array = self._array
        rows, timed = array.profile.rows(self._cpu), array.profile.timed
        lines = [HEADER if timed else HITS_HEADER]
        names = array.kallsyms.names_of(rows["ip"])
        bits = 8 * array.machine.port.facts.pointer_size
        for name, (_, hits, time, squared) in zip(names, rows.tolist(), strict=True):
            line = f"  {name:<30.30s}  {hits:10d}"
            if timed:
                average = time // hits
                if average < array.graph.settings.thresh:
                    continue
                columns = (time, average, variance(hits, time, squared, bits))
                line = "    ".join([line, *map(duration_text, columns)])
            lines.append(line + "\n")
        return "".join(lines)


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    cpus = range(len(array.machine.vcpus))
    return {
        "function_profile_enabled": FunctionProfileEnabled(array),
        "trace_stat": Directory({f"function{cpu}": FunctionStat(array, cpu) for cpu in cpus}),
    }
