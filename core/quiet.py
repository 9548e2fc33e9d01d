"""Waiting until no CPU is inside the tracer.

A vCPU can be stopped between any two blocks, between the tracer's look at its
buffer and its write too. Who changes what the tracer works on first lets each
such vCPU run on until it has left the tracer's code, a few blocks at a time and
the lowest number first: the same blocks every time. A task cannot be preempted
in there, since the tracer runs with interrupts off.

Where it was a CPU's tracer that asked for the change, that CPU waits for it, and has
nothing half done.
"""

from __future__ import annotations

from .abi import Hypercall
from .errors import MemoryFault
from .ftrace.entry import REGION
from .machine.machine import Machine
from .machine.vcpu import State

_STEP_NS = 64
_MOST_STEPS = 1000


def settle(machine: Machine) -> None:
    """Run each vCPU that is inside the tracer until it is not, for some 64 us at most.

    One that has stopped there for good never goes on writing, and is let be.
    """
    try:
        tracer = machine.memory.region(REGION)
    except MemoryFault:
        return
    for vcpu in machine.vcpus:
        for _ in range(_MOST_STEPS):
            inside = tracer.address <= vcpu.registers.pc < tracer.end
            asks = vcpu.local["call"] == Hypercall.TRACE_CONTROL
            if not inside or asks or vcpu.state is not State.RUNNING:
                break
            machine.turn(vcpu, ns=_STEP_NS)
