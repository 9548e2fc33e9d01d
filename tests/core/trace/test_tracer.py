"""The guest's tracer writes and the host reads, with the built tracer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.abi import TraceType
from dynftrace.core.ftrace.settle import settle
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.trace.buffer.subbuffer import DATA_SIZE

IP = 0xFFFF_FFFF_8100_0000
PER_PAGE = DATA_SIZE // 28
SCRATCH = 0xFFFF_FFFF_9800_0000


class Guest:
    """A machine without a boot; tests write events by calling the tracer."""

    def __init__(self) -> None:
        self.session = Session.open(arches.load("x86_64"), MachineSpec(boot=False))
        self.machine = self.session.boot.machine
        self.ring = self.session.boot.ring
        self.next = 1
        self.machine.memory.map(SCRATCH, 0x2000, "scratch")

    def address(self, name: str) -> int:
        found = self.session.boot.kallsyms.address(name)
        assert found is not None
        return found

    def write(self, count: int = 1) -> None:
        """Write events; the parent of each is the next number."""
        tracer = self.address("function_trace_call")
        for _ in range(count):
            self.machine.requests.call(tracer, [IP, self.next, 0, 0])
            self.next += 1

    def mark(self, text: bytes) -> int:
        self.machine.memory.write(SCRATCH, text)
        arguments = [SCRATCH, len(text), self.address("global_trace")]
        return self.machine.requests.call(self.address("tracing_mark_write"), arguments)

    def waiting(self) -> list[int]:
        table = self.ring.events()
        return [int(parent) for parent in table.addresses[table.events["parent"]]]

    def taken(self, limit: int | None = None) -> list[int]:
        table = self.ring.consume(limit=limit).table
        return [int(parent) for parent in table.addresses[table.events["parent"]]]


@pytest.fixture
def guest() -> Iterator[Guest]:
    yield Guest()


def test_events_are_read_as_written(guest: Guest) -> None:
    guest.write(3)
    table = guest.ring.events()
    assert table.ips().tolist() == [IP] * 3
    assert guest.waiting() == [1, 2, 3]
    assert (np.diff(table.events["ts"].astype(np.int64)) > 0).all()
    assert table.events["pid"].tolist() == [0, 0, 0]
    assert table.damaged == 0


def test_texts_and_long_pauses_are_read_as_written(guest: Guest) -> None:
    guest.write(1)
    assert guest.mark(b"hello\n") == 6
    guest.machine.vcpus[0].ticks += 1 << 35
    guest.write(1)
    guest.mark(b"x" * 300)
    table = guest.ring.events()
    fn, print_ = int(TraceType.FN), int(TraceType.PRINT)
    assert table.events["type"].tolist() == [fn, print_, fn, print_]
    assert table.details.texts == (b"hello\n", b"x" * 300 + b"\n")
    assert int(table.events["ts"][2]) - int(table.events["ts"][1]) >= 1 << 35
    assert table.damaged == 0


def test_counts_agree_with_the_events(guest: Guest) -> None:
    guest.write(3 * PER_PAGE + 4)
    ring = guest.ring
    assert guest.waiting() == list(range(2 * PER_PAGE + 1, 3 * PER_PAGE + 5))
    assert (ring.in_buffer(0), ring.overrun(0)) == (PER_PAGE + 4, 2 * PER_PAGE)
    assert ring.unread_bytes(0) == 28 * (PER_PAGE + 4)
    ring.reset()
    ring.set_overwrite(False)
    guest.write(2 * PER_PAGE + 3)
    assert (ring.in_buffer(0), ring.dropped(0)) == (2 * PER_PAGE, 3)
    ring.set_recording(False)
    guest.write(1)
    assert (ring.in_buffer(0), ring.dropped(0)) == (2 * PER_PAGE, 3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_event_is_read_once_or_counted_as_lost(guest: Guest, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ring = guest.ring
    seen: list[int] = []
    for _ in range(40):
        match int(rng.integers(5)):
            case 0:
                seen += guest.taken()
            case 1:
                seen += guest.taken(int(rng.integers(1, 200)))
            case 2:
                ring.resize(int(rng.integers(1, 20)))
            case 3:
                ring.set_overwrite(bool(rng.integers(2)))
            case _:
                guest.write(int(rng.integers(1, 200)))
        waiting = guest.waiting()
        assert len(waiting) == ring.in_buffer()
        everything = seen + waiting
        assert (np.diff(everything) > 0).all()
        assert len(everything) + ring.overrun() + ring.dropped() == guest.next - 1


def test_settle_lets_the_tracer_finish(guest: Guest) -> None:
    machine, vcpu = guest.machine, guest.machine.vcpus[0]
    loop = SCRATCH + 0x1000
    machine.memory.write(loop, b"\xeb\xfe")
    tracer = guest.address("function_trace_call")
    effect = machine.port.enter_call(tracer, [IP, 7, 0, 0], SCRATCH + 0x800, loop)
    for address, data in effect.stores:
        machine.memory.write(address, data)
    machine.start(tracer)
    machine.set_registers(0, effect.registers)
    machine.scheduler.turn(vcpu, ns=1)
    assert vcpu.registers.pc != loop
    assert guest.waiting() == []
    settle(machine)
    assert vcpu.registers.pc == loop
    assert guest.waiting() == [7]
    before = vcpu.ticks
    settle(machine)
    assert vcpu.ticks == before
