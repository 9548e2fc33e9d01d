"""The function profiler's tables: in guest memory, one a CPU, written there and read here.

A table is open addressing over `struct ftrace_profile`, by address of the call
site; `fprofiler`, the guest's `struct ftrace_profile_control`, says where they
are. What is counted when is the guest's (arches/guest/tracer/profile.c). They come
when profiling is first switched on. No vCPU is inside the tracer when they are
emptied, nor when it is switched off: nothing is added behind. Source:
ftrace_profile_init() and function_stat_show() in kernel/trace/ftrace.c, 6.1.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..errors import MemoryFault, TracefsError
from ..machine.machine import Machine
from ..machine.memory import Region
from ..quiet import settle
from .ftrace import Ftrace
from .opslist import area_part

CONTROL = "fprofiler"
"""The guest's `struct ftrace_profile_control`."""

CALL = "function_profile_call"
"""The guest function that counts hits where there is no graph tracer."""

REGION = "ftrace_profile"
"""Name of the tables' memory."""

_PART = 6
"""Of the area for the sites of hashes."""

_LEAST_BITS = 10

_ROW = np.dtype([(name, "u8") for name in ("ip", "counter", "time", "time_squared")])


class ProfileTables:
    """The tables of one machine."""

    def __init__(self, machine: Machine, ftrace: Ftrace) -> None:
        self._machine = machine
        self._ftrace = ftrace
        self._layout = abi.ftrace_profile(machine.memory.byteorder)
        self._area = area_part(machine.port.facts, _PART)
        self._number = 0
        """Of the profiling that is on or was last."""

    def reset(self) -> None:
        """Have empty tables with room for half as many functions more than there are.

        Counting is off then. Raises `TracefsError` (ENOMEM) and `MissingSymbolError`.
        """
        control = self._ftrace.entry.label(CONTROL)
        memory, cpus = self._machine.memory, len(self._machine.vcpus)
        settle(self._machine)
        bits = max((2 * len(self._ftrace.records)).bit_length(), _LEAST_BITS)
        size = cpus * self._layout.itemsize << bits
        if size > len(self._area):
            raise TracefsError(errno.ENOMEM)
        present = self._region()
        if present is None or present.size != size:
            if present is not None:
                memory.unmap(REGION)
            try:
                memory.map(self._area.start, size, REGION, executable=False)
            except MemoryFault as error:
                raise TracefsError(errno.ENOMEM) from error
        memory.region(REGION).bytes[:] = 0
        table = np.zeros((), abi.ftrace_profile_control(memory.byteorder))
        table["bits"], table["limit"], table["tables"] = bits, 3 << bits - 2, self._area.start
        memory.write(control, table.tobytes())

    def _region(self) -> Region | None:
        """Where they are, once they are there."""
        return self._machine.memory.region_at(self._area.start)

    def count(self, on: bool) -> None:
        """Have hits and times counted from now on, or not.

        Functions that were called before are not of this profiling and have no time in it.
        """
        settle(self._machine)
        self._number += on
        value = self._number if on else 0
        self._machine.memory.write_int(self._ftrace.entry.label(CONTROL), value, 4)

    def rows(self, cpu: int, by: str) -> NDArray[np.void]:
        """What was counted on `cpu`, the most of the field `by` first, then by address.

        Fields ip, counter, time, time_squared, u8 each, times in ns; shape (n,).
        """
        region = self._region()
        if region is None:
            return np.zeros(0, _ROW)
        size = region.size // len(self._machine.vcpus)
        data = region.bytes[cpu * size : (cpu + 1) * size]
        table = data.view(self._layout)
        rows = table[table["counter"] != 0].astype(_ROW)
        ordered: NDArray[np.void] = rows[np.lexsort((rows["ip"], ~rows[by]))]
        return ordered

    def hits(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """What was counted on all CPUs: addresses, and the hits of each, in no order.

        Shape (n,); an address comes once for each CPU that ran it.
        """
        region = self._region()
        if region is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        table = region.bytes.view(self._layout)
        used = np.flatnonzero(table["counter"])
        return table["ip"][used].astype(np.uint64), table["counter"][used].astype(np.int64)


def variance(hits: int, time: int, time_squared: int, bits: int) -> int:
    """s^2 of the times of `hits` calls, in ns us; 0 for one, of which there is none.

    In the kernel's arithmetic: sums of 64 bits, a divisor of a long's `bits`.
    """
    divisor = hits * (hits - 1) * 1000 % (1 << bits)
    return (hits * time_squared - time * time) % (1 << 64) // divisor if divisor else 0
