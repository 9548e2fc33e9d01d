"""Interrupts: which are pending for a vCPU, and how one is delivered and left.

An interrupt is delivered between two blocks, while `irqs_disabled` is 0. The interrupted
registers go to a `struct pt_regs` on the interrupted stack, one pointer each in the order of
`Abi.pt_regs`. Then the CPU enters

    void common_interrupt(struct pt_regs *regs, unsigned long vector)

with interrupts off. This function never returns: `HC_IRET` loads every register from a
`struct pt_regs`. Because the interrupted state is on the task's own stack, the guest may
switch tasks in between. The task then resumes wherever that call is made, on another vCPU too.

An NMI is delivered between any two blocks, but not inside another NMI. It enters

    void common_nmi(struct pt_regs *regs)

with interrupts off, on the stack that ends at `cpu_local.nmi_stack`, as a processor with a stack
for NMIs does. Before the guest has set that field, NMIs stay pending. The machine keeps
`irqs_disabled` and the words of a hypercall until `HC_NMI_RETURN`: the interrupted code may be
about to make one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..abi import NMI_STACK_SIZE, TICK_NS, Vector
from ..arch import Effect, Port
from .function import enter
from .memory import Memory
from .registers import Registers
from .symbols import Names

ENTRY = "common_interrupt"
"""The kernel's function that takes every interrupt; a kernel without it takes none."""

NMI_ENTRY = "common_nmi"
"""The kernel's function that takes every NMI; a kernel without it takes none."""

TRAP_ENTRY = "exc_breakpoint"
"""The tracer's function that takes the traps of kprobes."""

NMI_RETRY_NS = 1_000
"""Virtual ns after which the machine tries again to deliver an NMI to a CPU without a stack."""

WATCHDOG_NS = 10_000_001_000
"""Virtual ns between two NMIs of the watchdog: Linux's ten seconds, and a little more.

The guest's handler ignores an NMI that comes within ten seconds of its last check.
"""

_KEPT = ("irqs_disabled", "call", "call_arg", "call_result")
"""Fields of `cpu_local` that the machine keeps while an NMI or a trap runs."""


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
    nmi: int | None = None
    """Time at which the next NMI is due, if any."""
    nmi_period: int = 0
    """Virtual ns from one NMI to the next, or 0 for a single one."""
    nmi_in_change: bool = False
    """Whether an NMI comes in the middle of the next change of text."""
    nmis: int = 0
    """NMIs delivered."""
    interrupted: tuple[Any, ...] | None = None
    """While an NMI runs: the interrupted values of `_KEPT`."""

    def send(self, vector: int, at: int) -> None:
        """Make `vector` pending from time `at`, or from an earlier time it is pending from."""
        self.pending[vector] = min(at, self.pending.get(vector, at))

    @property
    def only_ticks(self) -> bool:
        """Whether nothing but the timer's ticks is to come."""
        return not self.pending and self.nmi is None

    def next(self) -> int:
        """Return the time at which the first is due."""
        if self.only_ticks:
            return self.next_tick
        due = [self.next_tick, *self.pending.values()]
        if self.nmi is not None and not self.in_nmi:
            due.append(self.nmi)
        return min(due)

    def next_after(self, now: int, limit: int) -> int:
        """Return when the first one after `now` is due, or `limit` if that is earlier."""
        if self.only_ticks:
            return self.next_tick if now < self.next_tick < limit else limit
        nmi = () if self.nmi is None or self.in_nmi else (self.nmi,)
        later = (at for at in (self.next_tick, *self.pending.values(), *nmi) if now < at < limit)
        return min(later, default=limit)

    @property
    def in_nmi(self) -> bool:
        """Whether an NMI is running."""
        return self.interrupted is not None

    def nmi_due(self, now: int) -> bool:
        """Whether an NMI is to be delivered at `now`."""
        return self.nmi is not None and self.nmi <= now and self.interrupted is None

    def until_nmi(self, limit: int) -> int:
        """Return when the next NMI is due, even if in the past, or `limit` if that is earlier."""
        if self.nmi is None or self.interrupted is not None or self.nmi > limit:
            return limit
        return self.nmi

    def take_nmi(self, now: int) -> None:
        """Count the NMI that is due as delivered, and find when the next one is due."""
        assert self.nmi is not None
        self.nmis += 1
        period = self.nmi_period
        self.nmi = self.nmi + ((now - self.nmi) // period + 1) * period if period else None

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
        return replace(self, pending=dict(self.pending))


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


def deliver_trap(
    vcpu: Processor, memory: Memory, port: Port, names: Names, handler: int, ip: int
) -> None:
    """Have `vcpu` enter `handler(regs, ip)`: the instruction at `ip` trapped.

    What the interrupted code has in `cpu_local` is kept above the registers. Raises
    `MemoryFault` if its stack is unmapped.
    """
    abi, layout, local = port.facts.abi, vcpu.pt_regs, vcpu.local
    kept = b"".join(local[name].tobytes() for name in _KEPT)
    regs = vcpu.registers.sp - abi.red_zone - layout.size - len(kept)
    regs -= regs % abi.stack_align
    memory.write(regs, layout.pack(*vcpu.registers.pt_regs.read()) + kept)
    vcpu.apply(enter(port, memory, names, handler, (regs, ip), regs, 0), memory)
    local["call"] = 0
    local["irqs_disabled"] = 1


def leave_trap(vcpu: Processor, memory: Memory, regs: int) -> None:
    """Resume what a trap has interrupted, with the registers at `regs`. Raises `MemoryFault`."""
    layout, local = vcpu.pt_regs, vcpu.local
    vcpu.registers.pt_regs.write(layout.unpack(memory.read(regs, layout.size)))
    at = regs + layout.size
    for name in _KEPT:
        size = local[name].nbytes
        raw = np.frombuffer(memory.read(at, size), local.dtype[name].base)
        local[name] = raw if raw.size > 1 else raw[0]
        at += size


def nmi_stack(local: np.void) -> range:
    """Return the addresses of the CPU's stack for NMIs."""
    end = int(local["nmi_stack"])
    return range(end - NMI_STACK_SIZE, end)


def nmi_regs(vcpu: Processor, port: Port) -> int:
    """Return the address of the `struct pt_regs` that an NMI saves."""
    regs = int(vcpu.local["nmi_stack"]) - vcpu.pt_regs.size
    return regs - regs % port.facts.abi.stack_align


def deliver_nmi(
    vcpu: Processor,
    interrupts: Interrupts,
    memory: Memory,
    port: Port,
    names: Names,
    handler: int,
) -> None:
    """Have `vcpu` enter `handler(regs)` on its NMI stack. Raises `MemoryFault` without a stack."""
    layout, local = vcpu.pt_regs, vcpu.local
    regs = nmi_regs(vcpu, port)
    memory.write(regs, layout.pack(*vcpu.registers.pt_regs.read()))
    interrupts.interrupted = tuple(local[name].copy() for name in _KEPT)
    vcpu.apply(enter(port, memory, names, handler, (regs,), regs, 0), memory)
    local["call"] = 0
    local["irqs_disabled"] = 1


def leave_nmi(vcpu: Processor, interrupts: Interrupts, memory: Memory, regs: int, now: int) -> None:
    """Resume what the NMI has interrupted, for at least one block. Raises `MemoryFault`."""
    layout, kept = vcpu.pt_regs, interrupts.interrupted
    vcpu.registers.pt_regs.write(layout.unpack(memory.read(regs, layout.size)))
    for name, value in zip(_KEPT, kept or (), strict=kept is not None):
        vcpu.local[name] = value
    interrupts.interrupted = None
    if interrupts.nmi is not None:
        interrupts.nmi = max(interrupts.nmi, now + 1)
