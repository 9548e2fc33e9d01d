"""Interrupts: what is pending for a vCPU, and how it is delivered and left.

An interrupt is delivered between two blocks, while `irqs_disabled` is 0. The
interrupted registers go to a `struct pt_regs` on the interrupted stack, in the
order `Abi.pt_regs` has, one pointer each; then the CPU is inside

    void common_interrupt(struct pt_regs *regs, unsigned long vector)

with interrupts off. It never returns: `HC_IRET` loads every register from a
`struct pt_regs`. Because the interrupted state lies on the task's own stack,
the guest may switch tasks in between, and the task goes on wherever that call
is made, on another vCPU too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..abi import TICK_NS, Vector
from .function import Names, enter

if TYPE_CHECKING:
    from ..arch import Port
    from .memory import Memory
    from .vcpu import Vcpu


@dataclass(slots=True)
class Interrupts:
    """What is pending for one vCPU, each with the virtual time it is due at."""

    next_tick: int = TICK_NS
    pending: dict[int, int] = field(default_factory=dict)

    def send(self, vector: int, at: int) -> None:
        """Make `vector` pending from time `at`; one of a kind, the earliest counts."""
        self.pending[vector] = min(at, self.pending.get(vector, at))

    def next(self) -> int:
        """When the first is due."""
        if not self.pending:
            return self.next_tick
        return min((self.next_tick, *self.pending.values()))

    def next_after(self, now: int, limit: int) -> int:
        """When the first that is not yet due comes, or `limit` if that is sooner."""
        if not self.pending:
            return self.next_tick if now < self.next_tick < limit else limit
        later = (at for at in (self.next_tick, *self.pending.values()) if now < at < limit)
        return min(later, default=limit)

    def take(self, now: int) -> int | None:
        """Take the vector that has been due the longest (the lowest of several), if any."""
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
        """An equal one of its own."""
        return Interrupts(self.next_tick, dict(self.pending))


def deliver(
    vcpu: Vcpu, memory: Memory, port: Port, names: Names, handler: int, vector: int
) -> None:
    """Have `vcpu` enter `handler(regs, vector)`; raises `MemoryFault` if its stack is not there."""
    abi, layout = port.facts.abi, vcpu.pt_regs
    regs = vcpu.registers.sp - abi.red_zone - layout.size
    regs -= regs % abi.stack_align
    memory.write(regs, layout.pack(*vcpu.registers.pt_regs.read()))
    vcpu.apply(enter(port, memory, names, handler, (regs, vector), regs, 0), memory)
    vcpu.local["irqs_disabled"] = 1


def leave(vcpu: Vcpu, memory: Memory, regs: int) -> None:
    """Load the `struct pt_regs` at `regs`, interrupts on again; raises `MemoryFault`."""
    layout = vcpu.pt_regs
    vcpu.registers.pt_regs.write(layout.unpack(memory.read(regs, layout.size)))
    vcpu.local["irqs_disabled"] = 0
