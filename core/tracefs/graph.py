"""The function graph tracer: its options (funcgraph-*), max_graph_depth and tracing_thresh.

The profiler shares its options sleep-time and graph-time.

Source: max_graph_depth and the options of graph_trace in
kernel/trace/trace_functions_graph.c, tracing_thresh in kernel/trace/trace.c, 6.1;
the options for return values come from 6.5.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ..arch import Addresses
from ..errors import TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.graph import GRAPH_STUB, FunctionGraph, GraphSettings, GraphUser
from ..ftrace.latency import LatencyTracer
from ..ftrace.ops import FtraceHash
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.text.graphformat import GraphOptions
from .number import kstrtoul
from .tree import File, Node

OPTIONS: Mapping[str, bool] = MappingProxyType(
    {
        "funcgraph-overrun": False,
        "funcgraph-cpu": True,
        "funcgraph-overhead": True,
        "funcgraph-proc": False,
        "funcgraph-duration": True,
        "funcgraph-abstime": False,
        "funcgraph-irqs": True,
        "funcgraph-tail": False,
        "funcgraph-retval": False,
        "funcgraph-retval-hex": False,
        "sleep-time": True,
        "graph-time": True,
    }
)
"""The tracer's options, in the kernel's order, with its defaults."""

IRQS, SLEEP_TIME, GRAPH_TIME = "funcgraph-irqs", "sleep-time", "graph-time"

_OF_TEXT = "funcgraph-"


class Graph:
    """The graph tracer of a trace array; its settings persist while it is off."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms, ftrace: Ftrace) -> None:
        self.options = dict(OPTIONS)
        self.settings = GraphSettings()
        func = kallsyms.address(GRAPH_STUB, TRACER)
        self._tracer = None if func is None else FunctionGraph(machine, ftrace, func)

    def save(self) -> Restore:
        """Return a function that restores the settings and the tracer."""
        kept = attributes(self, "options", "settings")
        return kept if self._tracer is None else in_order(kept, self._tracer.save())

    @property
    def available(self) -> bool:
        """Whether the guest and the port's entry code support it."""
        return self._tracer is not None and self._tracer.available

    @property
    def on(self) -> bool:
        """Whether calls and returns are traced, for the tracer or for the profiler."""
        return self._tracer is not None and self._tracer.on

    @property
    def profiling(self) -> bool:
        """Whether calls and returns are traced for the profiler."""
        return self._tracer is not None and self._tracer.user is GraphUser.PROFILER

    @property
    def tracing(self) -> bool:
        """Whether calls and returns are traced for the graph tracer."""
        return self._tracer is not None and self._tracer.user is GraphUser.TRACER

    @property
    def text_options(self) -> GraphOptions:
        """The options that the text of the trace needs."""
        options = [each for each in self.options.items() if each[0].startswith(_OF_TEXT)]
        named = {name.removeprefix(_OF_TEXT): on for name, on in options}
        return GraphOptions(**{name.replace("-", "_"): on for name, on in named.items()})

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `KeyError` if it does not exist."""
        _ = self.options[name]
        self.options[name] = value
        if name == IRQS:
            self.configure(replace(self.settings, skip_irqs=not value))
        elif name == SLEEP_TIME:
            self.configure(replace(self.settings, sleep_time=value))
        elif name == GRAPH_TIME:
            self.configure(replace(self.settings, graph_time=value))

    def configure(self, settings: GraphSettings) -> None:
        """Change the settings, with immediate effect."""
        self.settings = settings
        if self._tracer is not None and self._tracer.on:
            self._tracer.configure(self.settings)

    def set_hashes(self, filter_hash: FtraceHash, notrace_hash: FtraceHash) -> None:
        """Trace the functions that these hashes select. Raises `FtraceBug`."""
        if self._tracer is not None and self._tracer.on:
            self._tracer.set_hashes(filter_hash, notrace_hash)

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from the chosen functions."""
        graph, notrace = (each.forget(ips) for each in (self.settings.graph, self.settings.notrace))
        self.configure(replace(self.settings, graph=graph, notrace=notrace))

    def start(
        self,
        filter_hash: FtraceHash,
        notrace_hash: FtraceHash,
        user: GraphUser = GraphUser.TRACER,
    ) -> None:
        """Trace calls and returns for `user`. Raises as `FunctionGraph.start`.

        Raises `TracefsError` (EBUSY) while they are traced, ENODEV if the guest cannot.
        """
        if self._tracer is None:
            raise TracefsError(errno.ENODEV)
        if self._tracer.on:
            raise TracefsError(errno.EBUSY)
        self._tracer.ops.filter_hash = filter_hash
        self._tracer.ops.notrace_hash = notrace_hash
        self._tracer.settings = self.settings
        self._tracer.start(user)

    def stop(self) -> None:
        """Stop tracing calls and returns. Raises as `FunctionGraph.stop`."""
        if self._tracer is not None:
            self._tracer.stop()


class MaxGraphDepth(File):
    """Maximum depth of nested functions that are traced; 0 means any depth."""

    mode = 0o644

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def read(self) -> str:
        """Return the number."""
        return f"{self._graph.settings.max_depth}\n"

    def write(self, text: str) -> None:
        """Change the number."""
        graph = self._graph
        graph.configure(replace(graph.settings, max_depth=kstrtoul(text, 32)))


class TracingThresh(File):
    """Minimum duration in us of a traced function; then only returns are traced. 0 means all.

    The latency tracers keep each section that takes at least this long.
    """

    mode = 0o644

    def __init__(self, graph: Graph, latency: LatencyTracer) -> None:
        self._graph = graph
        self._latency = latency

    def read(self) -> str:
        """Return the number."""
        return f"{self._graph.settings.thresh // 1000}\n"

    def write(self, text: str) -> None:
        """Change the number."""
        graph, ns = self._graph, kstrtoul(text) * 1000
        graph.configure(replace(graph.settings, thresh=ns))
        self._latency.set_thresh(ns)


def files(graph: Graph, latency: LatencyTracer) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "max_graph_depth": MaxGraphDepth(graph),
        "tracing_thresh": TracingThresh(graph, latency),
    }
