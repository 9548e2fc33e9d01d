"""The tracefs tree, which every front end uses."""

from __future__ import annotations

import threading

from ..memento import Restore, attributes, in_order
from .array import TraceArray
from .buffers import files as buffer_files
from .cmdlines import files as cmdline_files
from .errorlog import files as error_files
from .events import files as event_files
from .events.pids import files as event_pid_files
from .events.synthetic import files as synth_files
from .filters import FilterFile
from .filters import files as filter_files
from .functions import FunctionTable
from .functions import files as function_files
from .graph import files as graph_files
from .instances import Instances
from .kprobes import debug_files as kprobe_debug_files
from .kprobes import files as kprobe_files
from .latency import files as latency_files
from .options import files as option_files
from .pids import files as pid_files
from .printk import files as printk_files
from .proc import proc_files
from .profile import files as profile_files
from .readme import files as readme_files
from .snapshot import files as snapshot_files
from .stack import files as stack_files
from .stack import filter_files as stack_filter_files
from .tracers import files as tracer_files
from .traces import files as trace_files
from .tree import Directory, File, Handle, Tracefs

__all__ = [
    "Directory",
    "File",
    "FilterFile",
    "FunctionTable",
    "Handle",
    "TraceArray",
    "Tracefs",
    "TracefsTree",
]


class TracefsTree(Tracefs):
    """The tree of one machine: its top trace array, and the instances."""

    def __init__(self, array: TraceArray, lock: threading.RLock) -> None:
        self.array = array
        ftrace, kallsyms, machine = array.ftrace, array.kallsyms, array.machine
        bits = 8 * machine.port.facts.pointer_size
        self.functions = FunctionTable(ftrace)
        self._filters = {
            **filter_files(array, ftrace, self.functions),
            **stack_filter_files(array.stack, ftrace, self.functions),
        }
        switch, graph = array.set_profile, array.graph
        self.instances = Instances(array, self.functions)
        root = Directory(
            {
                "instances": self.instances,
                **readme_files(ftrace.ftraced is not None),
                **tracer_files(array),
                **function_files(self.functions),
                **self._filters,
                **pid_files(ftrace.pids, bits),
                **graph_files(array.graph, array.latency.tracer),
                **latency_files(array.latency),
                **profile_files(array.profile, switch, graph, machine, kallsyms),
                **trace_files(array),
                **cmdline_files(array.tasks),
                **printk_files(array.printk),
                **snapshot_files(array.ring, array.snapshot),
                **buffer_files(array),
                **option_files(array),
                **error_files(array.error_log),
                **event_files(array, array.dynamic_events),
                **kprobe_files(array.kprobes),
                **synth_files(array.synthetic),
                **event_pid_files(array.event_pids, bits),
                **stack_files(array.stack, kallsyms, bits),
            }
        )
        super().__init__(
            root,
            lock,
            {
                "/proc": proc_files(array.stack, machine, ftrace, array.commands),
                **kprobe_debug_files(array.kprobes),
            },
        )

    def save(self) -> Restore:
        """Return a function that restores instances, and filter words that wait for a module."""
        waiting = (attributes(file, "waiting") for file in self._filters.values())
        return in_order(self.instances.save(), *waiting)

    def module_loaded(self, name: str) -> None:
        """Apply the filter words that wait for the module `name`. Raises `FtraceBug`."""
        for file in (*self._filters.values(), *self.instances.filters):
            file.module_loaded(name)
