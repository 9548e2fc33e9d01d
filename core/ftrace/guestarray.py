"""A trace array in the guest: `struct trace_array`, which the host writes and the tracer reads.

The tracer has one for the top of the tree, `global_trace`. Those of instances are in memory that
the host gives them, and are linked to it (arches/guest/include/tracer.h).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from .. import abi
from ..abi import TraceIter
from ..kernel.kallsyms import Kallsyms
from ..machine.memory import Memory
from ..machine.symbols import TRACER

TOP = "global_trace"
"""The tracer's trace array for the top of the tree."""


class GuestArray:
    """The `struct trace_array` at an address."""

    def __init__(self, memory: Memory, address: int) -> None:
        self.address = address
        self._memory = memory
        self._layout = abi.trace_array(memory.byteorder)

    @classmethod
    def top(cls, memory: Memory, kallsyms: Kallsyms) -> Self | None:
        """Return the trace array for the top of the tree; None if the kernel cannot be traced."""
        address = kallsyms.address(TOP, TRACER)
        return None if address is None else cls(memory, address)

    def at(self, field: str) -> int:
        """Return the address of a field."""
        assert self._layout.fields is not None
        return self.address + self._layout.fields[field][1]

    def get(self, field: str) -> int:
        """Return a field that is a number."""
        return self._memory.read_int(self.at(field), self._layout[field].itemsize)

    def set(self, field: str, value: int) -> None:
        """Write a field that is a number."""
        self._memory.write_int(self.at(field), value, self._layout[field].itemsize)

    def set_flag(self, flag: TraceIter, on: bool) -> None:
        """Switch an option that the guest obeys."""
        flags = self.get("flags")
        self.set("flags", flags | flag if on else flags & ~flag)

    def buffer(self, cpu: int) -> np.ndarray:
        """Return a writable view of the `struct ring_buffer_cpu` of a CPU, shape ()."""
        view = self._memory.view(self.address, self._layout.itemsize).view(self._layout)
        buffer: np.ndarray = view["buffers"][0, cpu : cpu + 1].reshape(())
        return buffer
