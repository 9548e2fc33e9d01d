"""The guest's table of ftrace_ops, which ftrace_ops_list_func walks.

tracer.o holds `struct ftrace_ops ftrace_ops_list[]`: for each registered ops
its function and its two hashes, each a pointer to ascending addresses and
their number. An entry without function ends the table. The addresses
themselves lie in memory of their own, made larger as needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .entry import Entry
from .memory import Memory
from .ops import FtraceOps


class OpsList:
    """Writes the table; `func` is ftrace_ops_list_func."""

    def __init__(self, entry: Entry, memory: Memory) -> None:
        self.func = entry["ftrace_ops_list_func"]
        self._table = entry["ftrace_ops_list"]
        self._memory = memory

    @classmethod
    def find(cls, entry: Entry, memory: Memory) -> OpsList | None:
        """The table of a tracer that has one."""
        known = entry.symbols.keys() >= {"ftrace_ops_list_func", "ftrace_ops_list"}
        return cls(entry, memory) if known else None

    def write(self, ops: Sequence[FtraceOps]) -> None:
        """Have the list function call `ops`."""
        raise NotImplementedError
