"""Decoding only what is new, compared with decoding everything."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dynftrace.core.trace.buffer import follower
from dynftrace.core.trace.buffer.details import KINDS
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.follower import Follower
from dynftrace.core.trace.buffer.subbuffer import DATA_SIZE, PageFormat

from .pages import Page
from .ringwriter import Writer

PER_PAGE = DATA_SIZE // 28


def same(got: EventTable, expected: EventTable) -> None:
    """Check that two tables have the same events, however their addresses are numbered."""
    for name in ("ts", "pid", "cpu", "flags", "preempt", "type"):
        assert np.array_equal(got.events[name], expected.events[name]), name
    assert np.array_equal(got.ips(), expected.ips())
    for kind in np.unique(expected.events["type"]).tolist():
        chosen = expected.events["type"] == kind
        one, other = (table.events["parent"][chosen] for table in (got, expected))
        if kind in KINDS:  # a row of its details
            assert np.array_equal(one, other)
        else:
            assert np.array_equal(got.addresses[one], expected.addresses[other])
    assert got.details.texts == expected.details.texts
    for name in ("hits", "returns", "calls", "switches"):
        assert np.array_equal(getattr(got.details, name), getattr(expected.details, name)), name
    assert got.damaged == expected.damaged


class Following(RuleBasedStateMachine):
    """Writes, reads, clears, resizes and damage between two readings."""

    @initialize(
        order=st.sampled_from([("little", 8), ("big", 4)]),
        kb=st.integers(1, 40),
    )
    def start(self, order: tuple[str, int], kb: int) -> None:
        self.writer = Writer(2, *order)
        self.writer.ring.resize(kb)
        self.follower = Follower(self.writer.ring)

    @rule(cpu=st.integers(0, 1), count=st.integers(1, 700))
    def write(self, cpu: int, count: int) -> None:
        self.writer.write(count, cpu)

    @rule(cpu=st.sampled_from([None, 0, 1]), limit=st.one_of(st.none(), st.integers(1, 300)))
    def consume(self, cpu: int | None, limit: int | None) -> None:
        self.writer.ring.consume(cpu, limit)

    @rule(cpu=st.sampled_from([None, 0, 1]), back=st.booleans())
    def reset(self, cpu: int | None, back: bool) -> None:
        self.writer.ring.reset(cpu)
        if back and cpu is None:
            # New events with the old times; only their content differs. This needs both CPUs
            # reset: otherwise the other CPU's clock would run backwards.
            self.writer.clock = 1000
            for descriptor in self.writer.descriptors:
                descriptor["write_stamp"] = self.writer.clock

    @rule(cpu=st.sampled_from([None, 0, 1]), kb=st.integers(1, 40))
    def resize(self, cpu: int | None, kb: int) -> None:
        self.writer.ring.resize(kb, cpu)

    @rule(on=st.booleans())
    def overwrite(self, on: bool) -> None:
        self.writer.ring.set_overwrite(on)

    @rule(
        cpu=st.integers(0, 1),
        page=st.integers(0, 9),
        at=st.integers(16, 4092),
        data=st.binary(min_size=1, max_size=4),
    )
    def scribble(self, cpu: int, page: int, at: int, data: bytes) -> None:
        for _, memory in [self.writer.memory.regions[name] for name in self._regions(cpu)]:
            pages = memory.reshape(-1, 4096)
            pages[page % len(pages), at : at + len(data)] = np.frombuffer(data, np.uint8)

    @rule(cpu=st.integers(0, 1), page=st.integers(0, 9), texts=st.lists(st.binary(max_size=20)))
    def mark(self, cpu: int, page: int, texts: list[bytes]) -> None:
        layout = self.writer.layout
        built = Page(layout.byteorder, layout.pointer_size, stamp=self.writer.clock)
        for number, text in enumerate(texts[:20]):
            built.text(1, 0x99, text).function(2, 0x1000 + number, 0x2000)
            if len(text) % 3:
                built.hit(1, 0x400 + number, 0x1000, 0x2000 + number, [number, 7, len(text)])
        for name in self._regions(cpu):
            pages = self.writer.memory.regions[name][1].reshape(-1, 4096)
            pages[page % len(pages)] = np.frombuffer(built.bytes(), np.uint8)

    @rule(cpu=st.integers(0, 1), name=st.sampled_from(["head_page", "tail_page", "read"]))
    def move(self, cpu: int, name: str) -> None:
        descriptor = self.writer.descriptors[cpu]
        saved = int(descriptor[name])
        for value in (0, 1, 2**31):
            descriptor[name] = value
            self.as_decoded()
        descriptor[name] = saved

    def _regions(self, cpu: int) -> list[str]:
        return [name for name in self.writer.memory.regions if name.startswith(f"ring_buffer{cpu}")]

    @invariant()
    def as_decoded(self) -> None:
        if hasattr(self, "follower"):
            same(self.follower.events(), self.writer.ring.events())


Following.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestFollowing = Following.TestCase


def test_only_new_pages_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = PageFormat.decode

    def counted(self: PageFormat, pages: np.ndarray) -> object:
        decoded.append(len(pages))
        return decode(self, pages)

    writer = Writer()
    writer.ring.resize(200)
    follower = Follower(writer.ring)
    writer.write(20 * PER_PAGE + 5)
    follower.events()
    monkeypatch.setattr(PageFormat, "decode", counted)
    follower.events()
    assert decoded == []
    writer.write(2 * PER_PAGE)
    follower.events()
    assert decoded == [3]
    writer.write(60 * PER_PAGE)
    follower.events()
    decoded.clear()
    writer.write(PER_PAGE)
    assert len(follower.events()) == writer.ring.in_buffer()
    assert decoded == [2]


def test_a_large_buffer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    writer.ring.resize(40)
    reader = Follower(writer.ring)
    writer.write(PER_PAGE)
    reader.events()
    monkeypatch.setattr(follower, "MOST_PAGES", 3)
    writer.write(4 * PER_PAGE)
    same(reader.events(), writer.ring.events())
    writer.ring.consume()
    same(reader.events(), writer.ring.events())


def test_addresses_of_overwritten_events_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "MOST_ADDRESSES", 1000)
    writer = Writer()
    reader = Follower(writer.ring)
    for _ in range(30):
        writer.write(PER_PAGE)
        table = reader.events()
        same(table, writer.ring.events())
        assert len(table.addresses) <= 1000 + PER_PAGE + 2


def test_a_returned_table_does_not_change() -> None:
    writer = Writer()
    reader = Follower(writer.ring)
    writer.write(100)
    table = reader.events()
    before = table.events.copy(), table.addresses.copy()
    writer.write(2 * PER_PAGE)
    reader.events()
    assert np.array_equal(table.events, before[0])
    assert np.array_equal(table.addresses, before[1])


def test_a_change_in_the_page_before_the_last_is_noticed() -> None:
    writer = Writer()
    reader = Follower(writer.ring)
    writer.write(PER_PAGE + 3)
    reader.events()
    page = writer._page(0, 0)
    page[16 + 12 : 16 + 20] = np.frombuffer(struct.pack("<Q", 0xABCD), np.uint8)
    assert reader.events().ips()[0] == 0xABCD
