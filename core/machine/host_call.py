"""Calls of a guest function on vCPU 0, for kernels that serve no requests.

The registers of vCPU 0 are saved, the function runs on the machine's own stack until it
returns to an address that only the machine knows, and the registers are restored. Changes of
memory and virtual time stay. No other vCPU runs meanwhile, so such a function must not wait for
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GuestHang, GuestInterrupted
from .function import enter
from .host import Host
from .memory import PAGE_SIZE
from .vcpu import State

STACK = "host stack"
STACK_SIZE = 15 * PAGE_SIZE

HOME = "host return"
"""Name of the page to whose start such a call returns."""


def call(host: Host, function: int, arguments: Sequence[int], limit_ns: int) -> int:
    """Call `function` on vCPU 0 and return its result, an unsigned pointer-sized number.

    Raises `GuestOops` for a fault in it, which ends the call but not the vCPU, `GuestHang` at
    the limit (virtual ns) and `GuestInterrupted` on `Scheduler.stop`.
    """
    vcpu, memory, facts = host.vcpus[0], host.memory, host.port.facts
    stack = facts.map.host_stack
    if memory.region_at(stack) is None:
        memory.map(stack, STACK_SIZE, STACK, executable=False)
        memory.map(stack + STACK_SIZE, PAGE_SIZE, HOME, writable=False)
    home = stack + STACK_SIZE
    effect = enter(host.port, memory, host.symbols, function, arguments, home, home)
    state, context = vcpu.state, vcpu.save_context()
    limit = vcpu.ticks + limit_ns
    try:
        vcpu.apply(effect, memory)
        vcpu.state = State.RUNNING
        vcpu.run_to(home)
        while True:
            stopped = not host.scheduler.turn(vcpu, halt_at=home, target=limit)
            if vcpu.state is State.DEAD:
                raise host.oopses[-1]
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
