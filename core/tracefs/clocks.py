"""The trace clocks: what the time stamps of a buffer mean.

The machine has one source of time, the ticks of each CPU. The kernel's clocks `perf`, `mono`,
`mono_raw`, `boot` and `tai` differ from `local` only in corrections of the clock, suspend and the
wall clock. This machine has none of them, so they equal `local`, and the time of day starts at 0.
Source: trace_clocks in kernel/trace/trace.c, kernel/trace/trace_clock.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..abi import RingBufferFlag
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER

LOCAL = "local"

_NONE = RingBufferFlag(0)
_OTHER = RingBufferFlag.CLOCK_COUNTER


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock: the flags of a buffer that uses it."""

    flags: RingBufferFlag = _NONE
    in_ns: bool = True

    @property
    def of_cpu(self) -> bool:
        """Whether a time stamp is the time of the CPU that wrote it."""
        return not self.flags


CLOCKS: Mapping[str, Clock] = MappingProxyType(
    {
        LOCAL: Clock(),
        "global": Clock(_OTHER | RingBufferFlag.CLOCK_GLOBAL),
        "counter": Clock(_OTHER, in_ns=False),
        "uptime": Clock(_OTHER | RingBufferFlag.CLOCK_JIFFIES, in_ns=False),
        **{name: Clock() for name in ("perf", "mono", "mono_raw", "boot", "tai")},
    }
)
"""The clocks by name, in the kernel's order."""

_JIFFIES, _FROM = "jiffies", "trace_jiffies"
_JIFFIES_IN_UNIT = 10
"""Ticks of the kernel in a unit of `uptime` (`jiffies_to_clock_t`)."""


class TraceClocks:
    """The clocks of one machine."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms) -> None:
        self._machine = machine
        self._kallsyms = kallsyms

    @property
    def names(self) -> tuple[str, ...]:
        """The clocks that this guest has: `uptime` needs a kernel that counts ticks."""
        pair = (self._kallsyms.address(_JIFFIES), self._kallsyms.address(_FROM, TRACER))
        return tuple(name for name in CLOCKS if name != "uptime" or None not in pair)

    def choose(self, name: str) -> RingBufferFlag:
        """Prepare the guest for the clock `name`; return the flags for its buffers."""
        clock = CLOCKS[name]
        if RingBufferFlag.CLOCK_JIFFIES in clock.flags:
            to, value = self._kallsyms.address(_FROM, TRACER), self._kallsyms.address(_JIFFIES)
            if to is not None and value is not None:
                self._machine.memory.write_int(to, value)
        return clock.flags

    def now(self, name: str, cpu: int) -> int:
        """Return the time of the clock `name` on `cpu`."""
        clock = CLOCKS[name]
        if clock.in_ns:
            return self._machine.vcpus[cpu].ticks
        if RingBufferFlag.CLOCK_JIFFIES in clock.flags:
            address = self._kallsyms.address(_JIFFIES)
            jiffies = 0 if address is None else self._machine.memory.read_int(address)
            return jiffies // _JIFFIES_IN_UNIT
        counter = self._kallsyms.address("trace_counter", TRACER)
        return 0 if counter is None else self._machine.memory.read_int(counter, 8)
