"""Run vCPUs until none is inside the tracer.

A vCPU can stop between any two blocks, even between the tracer's check of its buffer and the
write. So call `settle()` before changing the data that the tracer works on. It runs each
vCPU inside the tracer until it has left it, in the order of their numbers, so the result is
deterministic. No task is preempted there, since the tracer runs with interrupts off. An NMI
may have interrupted the tracer, so a vCPU in one counts as inside too.

A vCPU whose tracer requested the change is skipped: it waits for the change, and its data
are consistent.
"""

from __future__ import annotations

from ..abi import Hypercall
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from .entry import CODE_REGIONS

_ASKING = (Hypercall.TRACE_CONTROL, Hypercall.UPDATE_MAX_TR, Hypercall.PID_FOLLOW)

LIMIT_NS = 64_000
"""Virtual ns after which a vCPU counts as stuck in the tracer."""


def settle(machine: Machine) -> None:
    """Run each vCPU that is inside the tracer until it has left it.

    A vCPU that has oopsed there is skipped: it never writes again.
    """

    def inside(vcpu: Vcpu) -> bool:
        if vcpu.local["call"] in _ASKING:
            return False
        if vcpu.interrupts.in_nmi or vcpu.local["trace_recursion"]:
            return True
        code = machine.memory.region_at(vcpu.registers.pc)
        return code is not None and code.name in CODE_REGIONS

    for vcpu in machine.vcpus:
        machine.scheduler.run_while(inside, [vcpu], LIMIT_NS)
