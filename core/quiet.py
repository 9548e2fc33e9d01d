"""Run vCPUs until none is inside the tracer.

A vCPU can stop between any two blocks, also between the tracer's read of its buffer and
its write. Call `settle()` before changing the tracer's data: it runs each such vCPU until
it has left the tracer's code, a few blocks at a time and lowest number first, so the
blocks are the same every time. A task cannot be preempted there, because the tracer runs
with interrupts off.

If a CPU's tracer itself asked for the change, that CPU waits and has nothing half done.
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
    """Run each vCPU that is inside the tracer until it has left it, for about 64 us at most.

    A vCPU that has stopped there for good never writes again and is skipped.
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
