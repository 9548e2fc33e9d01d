"""A tracepoint of the guest, with a function of the tracer attached (`register_trace_*`).

The kernel calls `func` of `struct tracepoint` while `enabled` is not 0. The structure is
defined in `arches/guest/include/tracepoint.h`.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from .. import abi
from ..kernel.kallsyms import Kallsyms
from ..machine.memory import Memory
from ..machine.symbols import TRACER


class Tracepoint:
    """A tracepoint of the kernel and the function that it should call."""

    def __init__(self, memory: Memory, address: int, func: int) -> None:
        self._memory = memory
        self._address = address
        self._func = func

    @classmethod
    def find(cls, memory: Memory, kallsyms: Kallsyms, name: str, func: str) -> Self | None:
        """Return the tracepoint `name` with the function `func`; None if either is missing."""
        address, function = kallsyms.address(name), kallsyms.address(func, TRACER)
        if address is None or function is None:
            return None
        region = memory.region_at(address)
        size = abi.tracepoint(memory.byteorder).itemsize
        if region is None or address + size > region.end:
            return None
        return cls(memory, address, function)

    @property
    def enabled(self) -> bool:
        """Whether the kernel calls the function now."""
        return bool(self._memory.read_int(self._address, 4))

    def enable(self, on: bool) -> None:
        """Switch the call on or off; `func` stays set, as a CPU may be about to call it."""
        row = np.zeros((), abi.tracepoint(self._memory.byteorder))
        row["enabled"], row["func"] = on, self._func
        self._memory.write(self._address, row.tobytes())
