"""Pending interrupts of a vCPU, and the order in which they are taken."""

from __future__ import annotations

from dynftrace.core.abi import TICK_NS, Vector
from dynftrace.core.machine.interrupt import Interrupts


def test_missed_ticks_come_once() -> None:
    interrupts = Interrupts()
    assert interrupts.next() == TICK_NS
    assert interrupts.take(TICK_NS - 1) is None
    assert interrupts.take(3 * TICK_NS + 5) == Vector.TIMER
    assert interrupts.take(3 * TICK_NS + 5) is None
    assert interrupts.next() == 4 * TICK_NS


def test_the_longest_pending_comes_first_then_the_lowest_vector() -> None:
    interrupts = Interrupts()
    interrupts.send(Vector.DEVICE, 500)
    interrupts.send(Vector.REQUEST, 300)
    interrupts.send(Vector.RESCHEDULE, 300)
    assert interrupts.next() == 300
    taken = [interrupts.take(TICK_NS) for _ in range(5)]
    assert taken == [
        Vector.RESCHEDULE,
        Vector.REQUEST,
        Vector.DEVICE,
        Vector.TIMER,
        None,
    ]


def test_a_vector_is_pending_once_from_the_earliest_time() -> None:
    interrupts = Interrupts()
    for at in (700, 200, 900):
        interrupts.send(Vector.DEVICE, at)
    assert interrupts.take(199) is None
    assert interrupts.take(200) == Vector.DEVICE
    assert interrupts.take(TICK_NS - 1) is None


def test_a_slice_ends_when_the_next_interrupt_is_due() -> None:
    interrupts = Interrupts()
    assert interrupts.next_after(0, 50_000) == 50_000
    assert interrupts.next_after(TICK_NS - 10, TICK_NS + 40_000) == TICK_NS
    assert interrupts.next_after(TICK_NS, TICK_NS + 50_000) == TICK_NS + 50_000
    interrupts.send(Vector.DEVICE, 20_000)
    assert interrupts.next_after(0, 50_000) == 20_000
    assert interrupts.next_after(20_000, 70_000) == 70_000


def test_a_copy_is_independent() -> None:
    interrupts = Interrupts()
    copy = interrupts.copy()
    interrupts.send(Vector.DEVICE, 5)
    interrupts.take(TICK_NS)
    assert (copy.next_tick, copy.pending) == (TICK_NS, {})


def test_an_nmi_is_due_until_taken_and_late_periodic_ones_come_once() -> None:
    interrupts = Interrupts(nmi=500, nmi_period=100)
    assert (interrupts.next(), interrupts.next_after(0, 50_000)) == (500, 500)
    assert not interrupts.nmi_due(499)
    assert interrupts.nmi_due(950)
    interrupts.take_nmi(950)
    assert (interrupts.nmi, interrupts.nmis) == (1_000, 1)
    interrupts.nmi_period = 0
    interrupts.take_nmi(1_000)
    assert (interrupts.nmi, interrupts.until_nmi(7)) == (None, 7)


def test_no_nmi_is_due_inside_another() -> None:
    interrupts = Interrupts(nmi=500, interrupted=())
    assert interrupts.in_nmi
    assert not interrupts.nmi_due(600)
    assert (interrupts.next(), interrupts.until_nmi(900)) == (TICK_NS, 900)
    interrupts.interrupted = None
    assert interrupts.nmi_due(600)
    assert interrupts.until_nmi(900) == 500
