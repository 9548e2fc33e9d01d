"""A kernel that does not boot: CPU 0 gets the state that early boot code would have set.

Functions that need only a stack, the current task and per-CPU data then run unchanged.
Alternatives, static calls, static keys and retpolines stay as compiled, as they are before the boot
patches them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..machine.machine import Machine
from .kallsyms import Kallsyms

MOST_TEXT = 4096
"""Limit for the code that a port looks at, in bytes."""


class LoadedKernel:
    """The kernel of a machine, for `Port.unbooted`."""

    def __init__(
        self, machine: Machine, symbols: Kallsyms, exported: Callable[[], Mapping[str, int]]
    ) -> None:
        """`exported` finds the exported names, which takes time: it is called if one is needed."""
        self._memory = machine.memory
        self._symbols = symbols
        self._exported = exported

    def address(self, name: str) -> int | None:
        """Return the address of a symbol or of an exported name, or None."""
        found = self._symbols.address(name)
        return self._exported().get(name) if found is None else found

    def text(self, place: str | int) -> tuple[int, bytes]:
        """Return address and code of a function, or from an address on; no bytes if unknown."""
        address = self.address(place) if isinstance(place, str) else place
        symbol = self._symbols.lookup(address or 0)
        if symbol is None or address is None:
            return 0, b""
        size = min(symbol.address + symbol.size - address, MOST_TEXT)
        return address, self._memory.read_mapped(address, size)


def prepare(machine: Machine, kernel: LoadedKernel) -> None:
    """Give every vCPU the state of `Port.unbooted`, counters of virtual time, and no hardware."""
    values = machine.port.unbooted(kernel)
    for vcpu in machine.vcpus:
        vcpu.set_controls(values)
        vcpu.watch_code()
