"""The same commands give the same bytes: on two machines, after a snapshot, with either clock."""

from __future__ import annotations

import hashlib

from dynftrace.arches import load
from dynftrace.core.session.session import MachineSpec, Session

from ...support.digest import of_memory


def digest(session: Session) -> str:
    """Return a digest of all state: RAM, CPU-local data, registers, time, log and trace."""
    machine = session.boot.machine
    seen = hashlib.sha256(session.boot.tracefs.read("trace").encode())
    seen.update(of_memory(machine.memory).encode())
    for vcpu in machine.vcpus:
        seen.update(vcpu.local.tobytes())
        seen.update(repr((vcpu.state, vcpu.ticks, machine.registers(vcpu.number))).encode())
    seen.update(machine.dmesg.text().encode())
    return seen.hexdigest()


def opened(native: bool | None = None, cpus: int = 2) -> Session:
    spec = MachineSpec(native_clock=native, cpus=cpus)
    session = Session.open(load("x86_64"), spec)
    session.boot.tracefs.write("set_ftrace_filter", "*sched* vfs_*")
    session.boot.tracefs.write("current_tracer", "function")
    return session


def work(session: Session) -> str:
    for name in ("syscalls", "locks", "irqstorm", "forkbomb"):
        session.run_workload(name, 1)
    session.run(3_000_000)
    return digest(session)


def test_two_machines_and_both_clocks_agree() -> None:
    first = opened()
    result = work(first)
    assert len(first.boot.tracefs.read("trace").splitlines()) > 100
    assert work(opened()) == result
    assert work(opened(native=False)) == result


def test_the_result_does_not_depend_on_the_lengths_of_runs() -> None:
    whole, pieces = opened(), opened()
    start = whole.now
    for ns in (1, 50_000, 999, 3_000_000, 1, 1, 70_000, 2_000_000, 0):
        pieces.run(ns)
    whole.run(pieces.now - start)
    assert digest(pieces) == digest(whole)
