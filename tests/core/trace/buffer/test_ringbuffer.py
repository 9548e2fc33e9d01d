"""The host's side of the ring buffers, tested with a writer in Python."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dynftrace.core.errors import TracefsError
from dynftrace.core.trace.buffer.contents import Contents
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.subbuffer import DATA_SIZE

from .ringwriter import Writer

PER_PAGE = DATA_SIZE // 28


def ids(table: EventTable) -> list[int]:
    return [int(ip) for ip in table.ips()]


@pytest.mark.parametrize(("byteorder", "pointer_size"), [("little", 8), ("big", 4)])
def test_reading_keeps_events_and_consuming_removes_them(byteorder: str, pointer_size: int) -> None:
    writer = Writer(2, byteorder, pointer_size)
    writer.write(3, cpu=1)
    writer.write(2, cpu=0)
    ring = writer.ring
    assert ids(ring.events()) == ids(ring.events()) == [1, 2, 3, 4, 5]
    assert ids(ring.events(1)) == [1, 2, 3]
    assert ids(ring.consume(1).table) == [1, 2, 3]
    assert ids(ring.consume().table) == [4, 5]
    assert ids(ring.consume().table) == []
    writer.write(1, cpu=1)
    assert ids(ring.consume().table) == [6]
    assert ring.stats(1).read_events == 4
    assert writer.settled == 4


def test_overwriting_loses_the_oldest_page() -> None:
    writer = Writer()
    writer.write(2 * PER_PAGE + 1)
    ring = writer.ring
    assert ids(ring.events()) == list(range(PER_PAGE + 1, 2 * PER_PAGE + 2))
    assert (ring.in_buffer(), ring.written(), ring.overrun()) == (
        PER_PAGE + 1,
        2 * PER_PAGE + 1,
        PER_PAGE,
    )
    taken = ring.consume()
    assert taken.lost == {0: PER_PAGE}
    assert ring.consume().lost == {}


def test_a_full_buffer_can_drop_new_events() -> None:
    writer = Writer()
    writer.ring.set_overwrite(False)
    writer.write(2 * PER_PAGE + 5)
    assert ids(writer.ring.events()) == list(range(1, 2 * PER_PAGE + 1))
    assert writer.ring.stats(0).dropped_events == 5
    assert writer.ring.dropped() == 5
    writer.ring.consume(limit=PER_PAGE + 1)
    writer.write(1)
    assert ids(writer.ring.events())[-1] == 2 * PER_PAGE + 6


def test_names_that_are_due_stay_due_after_a_swap() -> None:
    """The flag trace_taskinfo_save belongs to the CPU; the guest compares two words instead."""
    writer = Writer()
    ring, descriptor = writer.ring, writer.descriptors[0]
    for due in (True, False):
        writer.write(3)
        descriptor["named"] = descriptor["entries"] - due
        for other in (Contents(), ring.exchange_cpu(0, Contents())):
            ring.exchange_cpu(0, other)
            assert (descriptor["named"] != descriptor["entries"]) == due


def test_consumed_events_do_not_count_as_lost() -> None:
    writer = Writer()
    writer.write(PER_PAGE + 7)
    writer.ring.consume()
    writer.write(2 * PER_PAGE - 6)
    assert writer.ring.overrun() == PER_PAGE - 7
    taken = writer.ring.consume()
    assert taken.lost == {0: PER_PAGE - 7}
    assert ids(taken.table) == list(range(2 * PER_PAGE + 1, 3 * PER_PAGE + 2))


def test_with_tracing_off_nothing_is_written() -> None:
    writer = Writer(2)
    ring = writer.ring
    ring.set_recording(False)
    writer.write(1, cpu=0)
    ring.set_recording(True, cpu=1)
    writer.write(1, cpu=1)
    assert (ring.recording(0), ring.recording(1)) == (False, True)
    assert ids(ring.events()) == [2]


def test_sizes_are_reported_as_by_the_kernel() -> None:
    ring = Writer(2).ring
    assert ring.size_text() == "7 (expanded: 1408)\n"
    assert ring.total_size_text() == "14 (expanded: 2816)\n"
    ring.expand()
    assert (ring.size_text(), ring.total_size_text()) == ("1408\n", "2816\n")
    ring.resize(64, cpu=1)
    assert (ring.size_text(), ring.size_text(1)) == ("X\n", "64\n")
    assert ring.total_size_text() == "1472\n"
    ring.expand()
    assert ring.size_text(1) == "64\n"


def test_a_buffer_has_at_least_two_pages() -> None:
    writer = Writer()
    writer.ring.resize(1)
    assert int(writer.descriptors[0]["nr_pages"]) == 2
    writer.ring.resize(1408)
    assert int(writer.descriptors[0]["nr_pages"]) == -(-1408 * 1024 // 4080)


@pytest.mark.parametrize(
    ("kb", "code"), [(0, errno.EINVAL), (-4, errno.EINVAL), (1 << 40, errno.ENOMEM)]
)
def test_impossible_sizes_are_refused(kb: int, code: int) -> None:
    ring = Writer().ring
    with pytest.raises(TracefsError) as caught:
        ring.resize(kb)
    assert caught.value.errno == code
    assert ring.size_text() == "7 (expanded: 1408)\n"


def test_without_memory_for_all_cpus_no_buffer_changes() -> None:
    writer = Writer(2)
    writer.write(5)
    writer.memory.limit = 400 * 1024
    with pytest.raises(TracefsError, match="Cannot allocate memory"):
        writer.ring.resize(256)
    assert len(writer.memory.regions) == 2
    writer.ring.resize(256, cpu=1)
    writer.write(5)
    assert ids(writer.ring.events()) == list(range(1, 11))
    assert writer.ring.size_text() == "X\n"


def test_growing_keeps_all_events_and_shrinking_the_newest() -> None:
    writer = Writer()
    ring = writer.ring
    writer.write(PER_PAGE + 10)
    ring.consume(limit=3)
    ring.resize(40)
    writer.write(3 * PER_PAGE)
    assert ids(ring.events()) == list(range(4, 4 * PER_PAGE + 11))
    assert ring.overrun() == 0
    ring.resize(1)
    assert ids(ring.events()) == list(range(3 * PER_PAGE + 1, 4 * PER_PAGE + 11))
    assert ring.overrun() == 3 * PER_PAGE - 3
    assert ring.in_buffer() == PER_PAGE + 10


def test_a_reset_empties_the_buffers() -> None:
    writer = Writer(2)
    writer.write(500, cpu=0)
    writer.write(5, cpu=1)
    writer.ring.reset(0)
    assert ids(writer.ring.events()) == list(range(501, 506))
    writer.ring.reset()
    assert len(writer.ring.events()) == 0
    assert writer.ring.stats(0).text() == (
        "entries: 0\n"
        "overrun: 0\n"
        "commit overrun: 0\n"
        "bytes: 0\n"
        "oldest event ts:     0.000000\n"
        "now ts:     0.000006\n"
        "dropped events: 0\n"
        "read events: 0\n"
    )
    writer.write(1)
    assert ids(writer.ring.consume().table) == [506]


def test_stats_count_events_and_losses() -> None:
    writer = Writer()
    writer.clock = 2_000_000_000
    writer.write(10, step=1000)
    writer.ring.consume(limit=4)
    stats = writer.ring.stats(0)
    assert (stats.entries, stats.bytes, stats.read_events) == (6, 6 * 28, 4)
    assert "oldest event ts:     2.000005\n" in stats.text()
    assert "now ts:     2.000010\n" in stats.text()
    assert "now ts: 2000010000\n" in stats.text(clock_in_ns=False)


def test_a_damaged_descriptor_gives_an_empty_buffer() -> None:
    writer = Writer()
    writer.write(10)
    for name in ("head_page", "tail_page", "read"):
        saved = int(writer.descriptors[0][name])
        writer.descriptors[0][name] = 0xFFFF_FFFF
        assert len(writer.ring.events()) == 0
        assert writer.ring.unread_bytes(0) == 0
        writer.descriptors[0][name] = saved
    writer.descriptors[0]["pages"] = 0x1234
    assert len(writer.ring.events()) == 10
    writer.descriptors[0]["overrun"] = 2**64 - 1
    assert writer.ring.in_buffer() == 0


def test_limited_consuming_takes_the_oldest_of_all_cpus() -> None:
    writer = Writer(2)
    for turn in range(1000):
        writer.write(1, cpu=turn % 2)
    taken = []
    while len(part := writer.ring.consume(limit=97).table):
        taken.extend(ids(part))
        assert len(part) <= 97
    assert taken[-290:] == list(range(711, 1001))
    assert taken == sorted(taken)


class Consuming(RuleBasedStateMachine):
    """Each event is seen once, or counted as lost or dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = Writer(2)
        self.seen: dict[int, list[int]] = {0: [], 1: []}
        self.lost = {0: 0, 1: 0}
        self.written = {0: 0, 1: 0}

    @rule(cpu=st.integers(0, 1), count=st.integers(1, 400))
    def write(self, cpu: int, count: int) -> None:
        self.writer.write(count, cpu)
        self.written[cpu] += count

    @rule(
        cpu=st.sampled_from([None, 0, 1]),
        limit=st.one_of(st.none(), st.integers(1, 300)),
    )
    def consume(self, cpu: int | None, limit: int | None) -> None:
        taken = self.writer.ring.consume(cpu, limit)
        for each in (0, 1):
            table = taken.table
            self.seen[each] += ids(table.take(table.events["cpu"] == each))
            self.lost[each] += taken.lost.get(each, 0)

    @rule(cpu=st.sampled_from([None, 0, 1]), kb=st.integers(1, 24))
    def resize(self, cpu: int | None, kb: int) -> None:
        self.writer.ring.resize(kb, cpu)

    @rule(on=st.booleans())
    def overwrite(self, on: bool) -> None:
        self.writer.ring.set_overwrite(on)

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        ring = self.writer.ring
        for cpu in (0, 1):
            waiting = ids(ring.events(cpu))
            seen = self.seen[cpu] + waiting
            assert np.all(np.diff(seen) > 0)
            assert len(waiting) == ring.in_buffer(cpu)
            assert len(seen) + ring.overrun(cpu) + ring.dropped(cpu) == self.written[cpu]
            assert self.lost[cpu] <= ring.overrun(cpu)


Consuming.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestConsuming = Consuming.TestCase
