"""Run vCPUs until none is inside the tracer.

A vCPU can stop between any two blocks: between the tracer's look at its buffer and its write
too. So call `settle()` before changing the data that the tracer works on. It runs each such
vCPU until it has left the tracer's code, the lowest number first: the same blocks every time.
A task cannot be preempted in there, since the tracer runs with interrupts off.

If a CPU's tracer itself asked for the change, that CPU waits for it and has nothing half done.
"""

from __future__ import annotations

from ..abi import Hypercall
from ..errors import MemoryFault
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from .entry import REGION

LIMIT_NS = 64_000
"""Virtual ns after which a vCPU is taken to be stuck in the tracer."""


def settle(machine: Machine) -> None:
    """Run each vCPU that is inside the tracer until it has left it.

    A vCPU that has oopsed there is skipped: it never writes again.
    """
    try:
        tracer = machine.memory.region(REGION)
    except MemoryFault:
        return

    def inside(vcpu: Vcpu) -> bool:
        asks = vcpu.local["call"] == Hypercall.TRACE_CONTROL
        return tracer.address <= vcpu.registers.pc < tracer.end and not asks

    for vcpu in machine.vcpus:
        machine.scheduler.run_while(inside, [vcpu], LIMIT_NS)
