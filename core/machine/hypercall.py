"""Calls of the machine by its guest (`HC_*` in machine.h), one function each.

A guest stores the number and the arguments in its CPU-local page, sets
`stop_request` and waits in a loop until `call` is 0 again; so there is no trap
instruction and all ports do alike. Results are values of the kernel: 0, or a
negative errno. A call that cannot be understood, or names memory that is not
there, is the guest's end on that vCPU: `GuestFault` becomes its oops.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..abi import TICK_NS, Hypercall, Vector
from . import interrupt
from .dmesg import LINE_MAX
from .function import enter
from .vcpu import State, Vcpu

if TYPE_CHECKING:
    from .machine import Machine

Arguments = Sequence[int]


class GuestFault(Exception):
    """The guest misused the machine; the sentence heads its oops. Never leaves the machine."""


def dispatch(machine: Machine, vcpu: Vcpu) -> None:
    """Do what `vcpu` asks for and let it go on; raises `GuestFault` or `MemoryFault`."""
    local = vcpu.local
    local["stop_request"] = 0
    number, *arguments = vcpu.call()
    if not number:
        return
    function = _CALLS.get(number)
    if function is None:
        raise GuestFault(f"unknown call {number} of the machine")
    local["call_result"] = function(machine, vcpu, arguments) % (1 << 64)
    local["call"] = 0


def _printk(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    address, length, *_ = arguments
    machine.dmesg.write_bytes(vcpu.ticks, machine.memory.read(address, min(length, LINE_MAX)))
    return 0


def _idle(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    vcpu.state = State.IDLE
    vcpu.idle_calls += 1
    return 0


def _cpu_up(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    number, entry, stack, task = arguments
    if number >= len(machine.vcpus):
        return -errno.EINVAL
    other = machine.vcpus[number]
    if other.state is not State.OFF:
        return -errno.EBUSY
    effect = enter(machine.port, machine.memory, machine.symbols, entry, (task,), stack, 0)
    other.apply(effect, machine.memory)
    other.ticks = vcpu.ticks
    other.interrupts.next_tick = (vcpu.ticks // TICK_NS + 1) * TICK_NS
    other.local["irqs_disabled"] = 1
    other.state = State.RUNNING
    return 0


def _iret(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    interrupt.leave(vcpu, machine.memory, arguments[0])
    return 0


def _send_ipi(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    number, vector, *_ = arguments
    if number >= len(machine.vcpus) or vector not in set(Vector):
        return -errno.EINVAL
    machine.vcpus[number].interrupts.send(vector, vcpu.ticks)
    return 0


def _request_done(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    sequence, result, *_ = arguments
    machine.requests.finish(sequence, result)
    return 0


def _panic(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    address, length, *_ = arguments
    text = machine.memory.read(address, min(length, LINE_MAX))
    machine.panic(vcpu, text)
    return 0


def _ftrace_init(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    return _ftrace(machine, Hypercall.FTRACE_INIT)


def _ftrace_update(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    return _ftrace(machine, Hypercall.FTRACE_UPDATE)


def _ftrace(machine: Machine, call: Hypercall) -> int:
    """No vCPU runs meanwhile: this is the guest's stop_machine."""
    handler = machine.ftrace_handler
    return -errno.ENODEV if handler is None else handler(call)


def _trace_control(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    """What a command of set_ftrace_filter is for, at its time on this vCPU."""
    handler = machine.trace_handler
    probe, ip, parent_ip, _ = arguments
    return -errno.ENODEV if handler is None else handler(vcpu.number, probe, ip, parent_ip)


def _trace_stack(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    """Store who called the traced function; 0 where nobody knows about tracing."""
    address, most, ip, *_ = arguments
    handler = machine.trace_stack_handler
    callers = [] if handler is None else handler(vcpu, ip)[:most]
    order = "<" if machine.memory.byteorder == "little" else ">"
    machine.memory.write(address, np.array(callers, f"{order}u8").tobytes())
    return len(callers)


def _stack_max(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    """More of a task's stack is in use than of any before, as far as the guest can tell."""
    used, ip, *_ = arguments
    if machine.stack_max_handler is not None:
        machine.stack_max_handler(vcpu, used, ip)
    return 0


def _graph_stop(machine: Machine, vcpu: Vcpu, arguments: Arguments) -> int:
    """A traced function did not come back as it went (`ftrace_pop_return_trace`)."""
    expected, received, function, back = arguments
    stop = machine.symbols.address("function_trace_stop")
    if stop is not None:
        machine.memory.write_int(stop, 1, 4)
    for line in (
        f"Bad frame pointer: expected {expected:x}, received {received:x}",
        f"  from func {machine.symbols.name(function)} return to {back:x}",
    ):
        machine.dmesg.write(vcpu.ticks, line)
    machine.panic(vcpu, b"a function did not return as it was called")
    return 0


_CALLS: dict[int, Callable[[Machine, Vcpu, Arguments], int]] = {
    Hypercall.PRINTK: _printk,
    Hypercall.IDLE: _idle,
    Hypercall.CPU_UP: _cpu_up,
    Hypercall.IRET: _iret,
    Hypercall.SEND_IPI: _send_ipi,
    Hypercall.REQUEST_DONE: _request_done,
    Hypercall.PANIC: _panic,
    Hypercall.FTRACE_INIT: _ftrace_init,
    Hypercall.FTRACE_UPDATE: _ftrace_update,
    Hypercall.GRAPH_STOP: _graph_stop,
    Hypercall.TRACE_CONTROL: _trace_control,
    Hypercall.TRACE_STACK: _trace_stack,
    Hypercall.STACK_MAX: _stack_max,
}
