"""Hypercalls (`HC_*` in machine.h), one function each.

A guest stores the number and the arguments in its CPU-local page, sets `stop_request` and
loops until `call` is 0 again. This needs no trap instruction, so it is the same on every port.
Results are the kernel's: 0, or a negative errno. An unknown call, or one that names unmapped
memory, oopses that vCPU (`GuestFault`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ..abi import TICK_NS, Hypercall, Vector
from . import interrupt
from .dmesg import LINE_MAX, Dmesg
from .function import enter
from .host import Host
from .requests import Requests
from .symbols import TRACER
from .updates import Updates
from .vcpu import State, Vcpu

Arguments = Sequence[int]


class Hypervisor(Host, Protocol):
    """The machine, as far as hypercalls need it."""

    @property
    def dmesg(self) -> Dmesg: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def updates(self) -> Updates: ...

    def panic(self, vcpu: Vcpu, text: bytes) -> None:
        """Stop every vCPU: the guest on `vcpu` panics with the message `text`."""
        ...


class GuestFault(Exception):
    """A call that the machine cannot do; its text heads the oops. The machine catches it itself."""


def dispatch(machine: Hypervisor, vcpu: Vcpu) -> None:
    """Answer the call of `vcpu`, which then continues. Raises `GuestFault` and `MemoryFault`."""
    local = vcpu.local
    local["stop_request"] = 0
    number, *arguments = vcpu.call()
    if not number:
        return
    function = _CALLS.get(number)
    if function is None:
        raise GuestFault(f"unknown hypercall {number}")
    result = function(machine, vcpu, arguments)
    if result is None:
        return  # the CPU waits in its hypercall
    result %= 1 << 64
    if number in (Hypercall.NMI_RETURN, Hypercall.TRAP_RETURN):
        return  # these words belong to the interrupted code again
    local["call_result"] = result
    local["call"] = 0


def answer(vcpu: Vcpu, result: int) -> None:
    """Answer the call in which `vcpu` waits."""
    vcpu.local["call_result"] = result
    vcpu.local["call"] = 0


def _printk(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    address, length, *_ = arguments
    machine.dmesg.write_bytes(vcpu.ticks, machine.memory.read(address, min(length, LINE_MAX)))
    return 0


def _idle(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    vcpu.state = State.IDLE
    vcpu.idle_calls += 1
    return 0


def _cpu_up(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
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


def _iret(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    interrupt.leave(vcpu, machine.memory, arguments[0])
    return 0


def _nmi_return(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    if not vcpu.interrupts.in_nmi:
        raise GuestFault("return from an NMI outside an NMI")
    interrupt.leave_nmi(vcpu, vcpu.interrupts, machine.memory, arguments[0], vcpu.ticks)
    return 0


def _trap_return(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    interrupt.leave_trap(vcpu, machine.memory, arguments[0])
    return 0


def _send_ipi(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    number, vector, *_ = arguments
    if number >= len(machine.vcpus) or vector not in set(Vector):
        return -errno.EINVAL
    machine.vcpus[number].interrupts.send(vector, vcpu.ticks)
    return 0


def _request_done(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    sequence, result, *_ = arguments
    machine.requests.finish(sequence, result)
    return 0


def _panic(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    address, length, *_ = arguments
    text = machine.memory.read(address, min(length, LINE_MAX))
    machine.panic(vcpu, text)
    return 0


def _ftrace_init(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    return machine.services.ftrace(Hypercall.FTRACE_INIT, vcpu.number)


def _ftrace_update(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    return machine.services.ftrace(Hypercall.FTRACE_UPDATE, vcpu.number)


def _trace_control(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Execute a command of set_ftrace_filter, at the current time of this vCPU."""
    probe, ip, parent_ip, _ = arguments
    return machine.services.trace_control(vcpu.number, probe, ip, parent_ip)


def _pid_follow(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Note that a task has forked another one, or has ended."""
    pid, parent, _, _ = arguments
    machine.services.pid_follow(pid, parent)
    return 0


def _trace_stack(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Store the callers of a traced function, and return how many there are."""
    address, most, ip, back = arguments
    callers = machine.services.callers(vcpu, ip, back=bool(back))[:most]
    order = "<" if machine.memory.byteorder == "little" else ">"
    machine.memory.write(address, np.array(callers, f"{order}u8").tobytes())
    return len(callers)


def _stack_max(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Report what the guest takes for a new maximum of stack use."""
    used, ip, *_ = arguments
    machine.services.stack_max(vcpu, used, ip)
    return 0


def _update_max_tr(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Swap this CPU's ring buffer, or all, with the spare one: they hold the longest latency."""
    everything, *_ = arguments
    machine.services.update_max(None if everything else vcpu.number)
    return 0


def _graph_stop(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    """Stop the guest: a traced function returned to the wrong place (`ftrace_pop_return_trace`)."""
    expected, received, function, back = arguments
    stop = machine.symbols.address("function_trace_stop", TRACER)
    if stop is not None:
        machine.memory.write_int(stop, 1, 4)
    for line in (
        f"Bad frame pointer: expected {expected:x}, received {received:x}",
        f"  from func {machine.symbols.name(function)} return to {back:x}",
    ):
        machine.dmesg.write(vcpu.ticks, line)
    machine.panic(vcpu, b"a traced function did not return to its caller")
    return 0


def _text_poke(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int | None:
    """Write text now; None leaves the CPU waiting in the call."""
    return machine.services.text_poke(vcpu.number)


def _sync_core(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    machine.services.sync_core(vcpu.number)
    return 0


def _ftrace_updated(machine: Hypervisor, vcpu: Vcpu, arguments: Arguments) -> int:
    sequence, *_ = arguments
    machine.updates.finish(sequence, vcpu)
    return 0


_CALLS: dict[int, Callable[[Hypervisor, Vcpu, Arguments], int | None]] = {
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
    Hypercall.PID_FOLLOW: _pid_follow,
    Hypercall.TRACE_STACK: _trace_stack,
    Hypercall.STACK_MAX: _stack_max,
    Hypercall.UPDATE_MAX_TR: _update_max_tr,
    Hypercall.NMI_RETURN: _nmi_return,
    Hypercall.TRAP_RETURN: _trap_return,
    Hypercall.TEXT_POKE: _text_poke,
    Hypercall.SYNC_CORE: _sync_core,
    Hypercall.FTRACE_UPDATED: _ftrace_updated,
}
