"""Interrupts: which are pending for a vCPU, and how one is delivered and left.

An interrupt is delivered between two blocks, while `irqs_disabled` is 0. The interrupted
registers go to a `struct pt_regs` on the interrupted stack, one pointer each in the order of
`Abi.pt_regs`. Then the CPU enters

    void common_interrupt(struct pt_regs *regs, unsigned long vector)

with interrupts off. This function never returns: `HC_IRET` loads every register from a
`struct pt_regs`. Because the interrupted state is on the task's own stack, the guest may
switch tasks in between. The task then resumes wherever that call is made, on another vCPU too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..abi import TICK_NS, Vector
from ..arch import Effect, Port
from .function import enter
from .memory import Memory
from .registers import Registers
from .symbols import Names

ENTRY = "common_interrupt"
"""The kernel's function that takes every interrupt; a kernel without it takes none."""


class Processor(Protocol):
    """A vCPU, as far as interrupts need it."""

    @property
    def registers(self) -> Registers:
        """Its registers."""
        ...

    @property
    def pt_regs(self) -> struct.Struct:
        """`struct pt_regs` in memory."""
        ...

    @property
    def local(self) -> np.void:
        """Its `struct cpu_local`."""
        ...

    def apply(self, effect: Effect, memory: Memory) -> None:
        """Set the registers and store the bytes of `effect`. Raises `MemoryFault`."""
        ...


@dataclass(slots=True)
class Interrupts:
    """The interrupts pending for one vCPU, each with the virtual time at which it is due."""

    next_tick: int = TICK_NS
    pending: dict[int, int] = field(default_factory=dict)

    def send(self, vector: int, at: int) -> None:
        """Make `vector` pending from time `at`, or from an earlier time it is pending from."""
        self.pending[vector] = min(at, self.pending.get(vector, at))

    def next(self) -> int:
        """Return the time at which the first is due."""
        if not self.pending:
            return self.next_tick
        return min((self.next_tick, *self.pending.values()))

    def next_after(self, now: int, limit: int) -> int:
        """Return when the first one after `now` is due, or `limit` if that is earlier."""
        if not self.pending:
            return self.next_tick if now < self.next_tick < limit else limit
        later = (at for at in (self.next_tick, *self.pending.values()) if now < at < limit)
        return min(later, default=limit)

    def take(self, now: int) -> int | None:
        """Remove and return the vector that has been due longest (of equals the lowest), if any."""
        due = [(at, vector) for vector, at in self.pending.items() if at <= now]
        if self.next_tick <= now:
            due.append((self.next_tick, Vector.TIMER))
        if not due:
            return None
        vector = min(due)[1]
        if vector == Vector.TIMER and self.next_tick <= now:
            self.next_tick = (now // TICK_NS + 1) * TICK_NS
        self.pending.pop(vector, None)
        return vector

    def copy(self) -> Interrupts:
        """Return an independent copy."""
        return Interrupts(self.next_tick, dict(self.pending))


def deliver(
    vcpu: Processor, memory: Memory, port: Port, names: Names, handler: int, vector: int
) -> None:
    """Have `vcpu` enter `handler(regs, vector)`. Raises `MemoryFault` if its stack is unmapped."""
    abi, layout = port.facts.abi, vcpu.pt_regs
    regs = vcpu.registers.sp - abi.red_zone - layout.size
    regs -= regs % abi.stack_align
    memory.write(regs, layout.pack(*vcpu.registers.pt_regs.read()))
    vcpu.apply(enter(port, memory, names, handler, (regs, vector), regs, 0), memory)
    vcpu.local["irqs_disabled"] = 1


def leave(vcpu: Processor, memory: Memory, regs: int) -> None:
    """Load the `struct pt_regs` at `regs` and enable interrupts. Raises `MemoryFault`."""
    layout = vcpu.pt_regs
    vcpu.registers.pt_regs.write(layout.unpack(memory.read(regs, layout.size)))
    vcpu.local["irqs_disabled"] = 0
