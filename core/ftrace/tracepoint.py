"""A tracepoint of the guest, as a tracer in its code hooks into it (`register_trace_*`).

The kernel calls `func` of its `struct tracepoint` while `enabled` is not 0; the
definition is `arches/guest/include/tracepoint.h`.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from .. import abi
from ..kallsyms import Kallsyms
from ..machine.memory import Memory


class Tracepoint:
    """One of the kernel's, with what it shall call."""

    def __init__(self, memory: Memory, address: int, func: int) -> None:
        self._memory = memory
        self._address = address
        self._func = func

    @classmethod
    def find(cls, memory: Memory, kallsyms: Kallsyms, name: str, func: str) -> Self | None:
        """That of the symbol `name`, for the function `func`; None where either is missing."""
        address, function = kallsyms.address(name), kallsyms.address(func)
        if address is None or function is None:
            return None
        region = memory.region_at(address)
        size = abi.tracepoint(memory.byteorder).itemsize
        if region is None or address + size > region.end:
            return None
        return cls(memory, address, function)

    @property
    def enabled(self) -> bool:
        """Whether the kernel calls the function."""
        return bool(self._memory.read_int(self._address, 4))

    def enable(self, on: bool) -> None:
        """Have it call the function, or not; func stays, as a CPU may be on its way to it."""
        row = np.zeros((), abi.tracepoint(self._memory.byteorder))
        row["enabled"], row["func"] = on, self._func
        self._memory.write(self._address, row.tobytes())
