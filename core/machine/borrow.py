"""Calling a guest function on a borrowed CPU, for kernels that serve no requests.

vCPU 0's registers are kept, the function runs on a stack of the machine's own
until it returns to an address that only the machine knows, and the registers
are put back; memory and virtual time go on from where the call left them. No
other vCPU runs meanwhile, so such a function must not wait for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import GuestHang, GuestInterrupted, GuestOops
from .function import enter
from .memory import PAGE_SIZE
from .vcpu import State

if TYPE_CHECKING:
    from .machine import Machine

STACK = "host stack"
STACK_SIZE = 16 * PAGE_SIZE


def call(machine: Machine, function: int, arguments: Sequence[int], limit_ns: int) -> int:
    """`function(arguments…)` on vCPU 0; what it returns, as an unsigned pointer-sized number.

    Raises `GuestOops` for a fault in it, which ends the call but not the vCPU,
    `GuestHang` at the limit (virtual ns) and `GuestInterrupted` on `Machine.stop`.
    """
    vcpu, memory, facts = machine.vcpus[0], machine.memory, machine.port.facts
    stack = facts.map.host_stack
    if memory.region_at(stack) is None:
        memory.map(stack, STACK_SIZE, STACK)
    # The last page is never stack: a return to its start is the return we wait for.
    home = stack + STACK_SIZE - PAGE_SIZE
    effect = enter(machine.port, memory, machine.symbols, function, arguments, home, home)
    state, context = vcpu.state, vcpu.save_context()
    limit = vcpu.ticks + limit_ns
    try:
        vcpu.apply(effect, memory)
        vcpu.state = State.RUNNING
        vcpu.run_to(home)
        while True:
            stopped = not machine.turn(vcpu, halt_at=home)
            if vcpu.state is State.DEAD:
                fault = machine.oopses[-1]
                raise GuestOops(str(fault), cpu=0, pc=fault.pc, report=fault.report)
            if vcpu.registers.pc == home:
                return vcpu.registers.result
            if stopped:
                raise GuestInterrupted("the call")
            if vcpu.ticks >= limit:
                raise GuestHang("the call", limit_ns)
    finally:
        vcpu.run_to(None)
        vcpu.restore_context(context)
        vcpu.state = state
