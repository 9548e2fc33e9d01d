"""Running until a vCPU is in front of an instruction, as if nobody had looked.

The engines stop there in the middle of a block and of a slice. The clock says then what
has really run; the rest of the block is counted when it runs, and the slice is gone on
with by the next run. So a run with such stops is the same slices and the same bytes as
one without: timestamps too.

A workload can be started without waiting for its end, which is how one gets to a function
that only a workload calls. It goes on whenever the machine runs. What is asked of the
guest next waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ..abi import RequestKind, Vector
from ..errors import GuestError, GuestInterrupted, GuestOops, UsageError
from .request import Started
from .vcpu import State, Vcpu

if TYPE_CHECKING:
    from .machine import Machine


def run_to(
    machine: Machine,
    places: Collection[int],
    wanted: Callable[[Vcpu], bool],
    limit_ns: int,
    what: str,
    ended: Callable[[], str | None] = lambda: None,
) -> Vcpu:
    """Run until a vCPU is at one of `places` and `wanted`; that vCPU.

    One that stands there already is to come there again. `what` is named in errors;
    `ended` may say why it will not be reached any more. Raises `GuestOops` when a vCPU
    stops for good meanwhile, `GuestError` after `limit_ns` of virtual time, and
    `GuestInterrupted` on `Machine.stop`.
    """
    found: list[Vcpu] = []

    def reached(vcpu: Vcpu) -> bool:
        if wanted(vcpu):
            found.append(vcpu)
        return bool(found)

    deaths, limit = len(machine.oopses), machine.now + limit_ns

    def over() -> bool:
        return bool(found) or len(machine.oopses) > deaths or ended() is not None

    machine.reached = reached
    try:
        for vcpu in machine.vcpus:
            vcpu.stop_at(places)
        stopped = machine.take_turns(over, limit)
    finally:
        machine.reached = None
        for vcpu in machine.vcpus:
            vcpu.stop_at(())
    if found:
        return found[0]
    if stopped:
        raise GuestInterrupted(f"the way to {what}")
    if len(machine.oopses) > deaths:
        fault = machine.oopses[deaths]
        raise GuestOops(
            f"{what} was not reached: CPU {fault.cpu} has stopped: {fault}",
            cpu=fault.cpu,
            pc=fault.pc,
            report=fault.report,
        )
    why = ended()
    if why is None and not machine.alive:
        why = "no CPU is running"
    raise GuestError(
        f"{what} was not reached: {why}"
        if why
        else f"{what} was not reached within {limit_ns / 1e9:.3g} s of virtual time"
    )


def start_workload(machine: Machine, name: str, count: int = 1) -> Callable[[], str | None]:
    """Have the guest begin a workload; what is returned says once it has ended.

    The same workload is not begun again while it goes on: its end is what is told. Raises
    `UsageError` while another goes on, and `GuestError` on a kernel that serves no
    requests or has stopped.
    """
    started = machine.requests.started
    if started is None or not going_on(machine, started):
        address = machine.request_address()
        if address is None:
            raise GuestError("this kernel has no workloads: it defines no host_request")
        vcpu = machine.vcpus[0]
        if vcpu.state is State.DEAD:
            raise GuestError(f"workload {name} cannot start: CPU 0 has stopped; reboot")
        sequence = machine.requests.fill(
            address, RequestKind.WORKLOAD, name=name, count=count, comm=name[:15]
        )
        vcpu.interrupts.send(Vector.REQUEST, machine.now)
        started = Started(sequence, name, len(machine.oopses))
        machine.requests.started = started
    elif started.name != name:
        raise UsageError(f"workload {started.name} still goes on: let the machine run to its end")
    begun = started
    return lambda: None if going_on(machine, begun) else f"workload {name} has ended"


def finish_started(machine: Machine, limit_ns: int) -> None:
    """Let what `start_workload` has begun come to its end, if it can.

    Raises what `Machine.run_until` does.
    """
    started = machine.requests.started
    if started is None or not going_on(machine, started):
        return
    try:
        machine.run_until(
            lambda: not going_on(machine, started),
            limit_ns,
            f"workload {started.name}, which still went on,",
        )
    except GuestInterrupted:
        raise
    except GuestError:
        machine.requests.started = None  # what has failed is not waited for twice
        raise


def going_on(machine: Machine, started: Started) -> bool:
    """Whether it has not ended, and no vCPU has stopped for good since it was begun."""
    return machine.requests.started is started and len(machine.oopses) == started.oopses
