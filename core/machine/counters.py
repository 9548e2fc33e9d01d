"""Counters of the CPU at virtual time, in kernels that read them.

The emulator answers an instruction that reads the time stamp counter with that of the host, so
two runs would differ. Unicorn has no hook for most such instructions. But they are rare: each
one in the kernel's code is hooked at its address, and the instruction after it finds the virtual
time in the registers instead. Where the searched bytes are within another instruction, the hook
never runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_CODE

from ..facts import Counter
from .memory import Memory


def find(counters: Sequence[Counter], memory: Memory, align: int) -> list[tuple[int, Counter]]:
    """Return the places in executable memory that have the text of one of `counters`.

    Each has a byte without a mask; `align` is that of instructions.
    """
    found = []
    for region in memory.regions if counters else ():
        if not region.executable:
            continue
        text = np.frombuffer(memory.read(region.address, region.size), np.uint8)
        for counter in counters:
            size = len(counter.value)
            first, *others = sorted(range(size), key=lambda byte: (-counter.mask[byte], -byte))
            column = text[first : len(text) - size + 1 + first : align]
            rows = np.flatnonzero(column == counter.value[first]) * align
            for byte in others:
                mask = np.uint8(counter.mask[byte])
                rows = rows[text[rows + byte] & mask == np.uint8(counter.value[byte])]
            found += [(region.address + row, counter) for row in rows.tolist()]
    return found


class CounterReads:
    """The hooks of one engine at the places in `found`."""

    def __init__(self, uc: Uc, found: Sequence[tuple[int, Counter]], ticks: Sequence[int]) -> None:
        """`ticks[0]` is the virtual time in ns."""
        self._uc = uc
        self._ticks = ticks
        self._read: Counter | None = None
        self._into: Sequence[int] = ()
        for address, counter in found:
            after = address + len(counter.value)
            uc.hook_add(UC_HOOK_CODE, self._on_code, (address, counter), address, after)

    def _on_code(self, uc: Uc, address: int, size: int, data: tuple[int, Counter]) -> None:
        place, counter = data
        if address != place:
            self.settle()
            return
        self._read = counter
        self._into = counter.registers[uc.mem_read(address, 1)[0] & counter.register_mask]

    def settle(self) -> None:
        """Give the registers of the last read the virtual time, if the read was the last step."""
        counter, self._read = self._read, None
        if counter is None:
            return
        value = self._ticks[0] // counter.tick_ns
        for row, register in enumerate(self._into):
            width = counter.bits * row
            self._uc.reg_write(register, value >> width & (1 << counter.bits) - 1)
