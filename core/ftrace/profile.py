"""The function profiler's tables: in guest memory, one per CPU, written by the guest.

A table uses open addressing over `struct ftrace_profile`, by address of the call site;
`fprofiler`, the guest's `struct ftrace_profile_control`, has the address of the tables.
The guest decides what to count (arches/guest/tracer/profile.c). The tables are mapped when
profiling is first switched on. No vCPU is inside the tracer when they are emptied or when
profiling is switched off, so nothing is counted afterwards. Source: ftrace_profile_init()
and function_stat_show() in kernel/trace/ftrace.c, 6.1.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..errors import MemoryFault, TracefsError
from ..machine.machine import Machine
from ..machine.memory import Region
from ..memento import Restore, attributes
from .ftrace import Ftrace
from .opslist import area_part
from .settle import settle

CONTROL = "fprofiler"
"""The guest's `struct ftrace_profile_control`."""

CALL = "function_profile_call"
"""The guest function that counts hits if the port has no graph tracer."""

REGION = "ftrace_profile"
"""Name of the tables' memory region."""

_PART = 6
"""The tables' part of the area for the sites of hashes."""

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
        """Number of the current or last profiling."""

    def save(self) -> Restore:
        """Return how to restore the number of the profiling; the tables are the machine's."""
        return attributes(self, "_number")

    def reset(self) -> None:
        """Empty the tables, with room for at least 1.5 times the number of functions.

        Counting is off afterwards. Raises `TracefsError` (ENOMEM) and `MissingSymbolError`.
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
        """Return the tables' memory; None before the first profiling."""
        return self._machine.memory.region_at(self._area.start)

    def count(self, on: bool) -> None:
        """Start or stop counting hits and times.

        Functions that were called before the start do not count, nor does their time.
        """
        settle(self._machine)
        self._number += on
        value = self._number if on else 0
        self._machine.memory.write_int(self._ftrace.entry.label(CONTROL), value, 4)

    def rows(self, cpu: int, by: str) -> NDArray[np.void]:
        """Return the counts of `cpu`, in descending order of the field `by`, then by address.

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
        """Return addresses and their hits on all CPUs, in no order.

        Shape (n,); an address occurs once for each CPU that ran it.
        """
        region = self._region()
        if region is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        table = region.bytes.view(self._layout)
        used = np.flatnonzero(table["counter"])
        return table["ip"][used].astype(np.uint64), table["counter"][used].astype(np.int64)


def variance(hits: int, time: int, time_squared: int, bits: int) -> int:
    """Return the variance s^2 of the times of `hits` calls, in ns*us; 0 for a single call.

    The arithmetic is the kernel's: sums of 64 bits, a divisor of a long's `bits`.
    """
    divisor = hits * (hits - 1) * 1000 % (1 << bits)
    return (hits * time_squared - time * time) % (1 << 64) // divisor if divisor else 0
