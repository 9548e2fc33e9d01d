"""The tracefs tree: the one way in for every front end."""

from __future__ import annotations

import threading

from .array import TraceArray
from .buffers import files as buffer_files
from .events import files as event_files
from .filters import FilterFile
from .filters import files as filter_files
from .functions import FunctionTable
from .functions import files as function_files
from .graph import files as graph_files
from .options import files as option_files
from .pids import files as pid_files
from .profile import files as profile_files
from .readme import files as readme_files
from .snapshot import files as snapshot_files
from .stack import files as stack_files
from .stack import filter_files as stack_filter_files
from .stack import proc_files
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
    """The tree of one trace array, with what its owner must reach directly."""

    def __init__(self, array: TraceArray, lock: threading.RLock) -> None:
        self.array = array
        self.functions = FunctionTable(array)
        self._filters = {
            **filter_files(array, self.functions),
            **stack_filter_files(array, self.functions),
        }
        root = Directory(
            {
                **readme_files(array),
                **tracer_files(array),
                **function_files(array, self.functions),
                **self._filters,
                **pid_files(array),
                **graph_files(array),
                **profile_files(array),
                **trace_files(array),
                **snapshot_files(array),
                **buffer_files(array),
                **option_files(array),
                **event_files(array),
                **stack_files(array),
            }
        )
        super().__init__(root, lock, {"/proc": proc_files(array)})

    def module_loaded(self, name: str) -> None:
        """Apply the filter words that waited for the module `name`. Raises `FtraceBug`."""
        for file in self._filters.values():
            file.module_loaded(name)
