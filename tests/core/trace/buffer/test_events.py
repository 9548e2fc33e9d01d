"""Merging the CPUs' buffers into one table."""

from __future__ import annotations

import numpy as np

from dynftrace.core.trace.buffer.events import EVENT, HIT, EventTable
from dynftrace.core.trace.buffer.subbuffer import Decoded, PageFormat

from .pages import Page

LAYOUT = PageFormat("little", 8)


def decode(*built: Page) -> Decoded:
    joined = b"".join(page.bytes() for page in built)
    return LAYOUT.decode(np.frombuffer(joined, np.uint8).reshape(len(built), 4096))


def test_an_event_takes_24_bytes() -> None:
    assert EVENT.itemsize == 24


def test_events_of_equal_time_keep_the_order_of_cpus_and_buffers() -> None:
    zero = Page(stamp=10).function(0, 0x10, 1).function(5, 0x11, 1).function(0, 0x12, 1)
    one = Page(stamp=10).function(0, 0x20, 1).function(5, 0x21, 1)
    table = EventTable.merge([(0, decode(zero)), (1, decode(one))])
    assert table.ips().tolist() == [0x10, 0x20, 0x11, 0x12, 0x21]
    assert table.events["cpu"].tolist() == [0, 1, 0, 0, 1]


def test_texts_of_several_cpus_stay_with_their_events() -> None:
    zero = Page(stamp=1).text(0, 0x99, b"zero").function(9, 0x10, 0x30)
    one = Page(stamp=2).text(0, 0x99, b"one").text(1, 0x99, b"two")
    table = EventTable.merge([(0, decode(zero)), (1, decode(one))])
    printed = table.events["type"] == 5
    assert [table.details.texts[row] for row in table.events["parent"][printed]] == [
        b"zero",
        b"one",
        b"two",
    ]
    assert table.addresses[table.events["parent"][~printed]].tolist() == [0x30]


def test_hits_of_several_cpus_and_pages_stay_with_their_events() -> None:
    layout = PageFormat("big", 4, registers=30)
    rows = {(cpu, at): [100 * cpu + at + n for n in range(30)] for cpu in (0, 1) for at in range(9)}

    def page(cpu: int, numbers: range) -> Page:
        built = Page("big", 4, stamp=10 * cpu + numbers.start)
        for at in numbers:
            built.function(1, 0x10, 0x20).text(0, 0x99, b"x")
            built.hit(2, 0x400 + at, 0x1000 + cpu, 0x2000 + at, rows[cpu, at])
        return built

    def decoded(cpu: int) -> list[tuple[int, Decoded]]:
        parts = (range(4), range(4, 9))
        pages = [np.frombuffer(page(cpu, part).bytes(), np.uint8) for part in parts]
        return [(cpu, layout.decode(each.reshape(1, 4096))) for each in pages]

    table = EventTable.merge([*decoded(0), *decoded(1)])
    assert table.damaged == 0 and table.details.hits["regs"].shape == (18, 30)
    hits = table.events[table.events["type"] == HIT]
    assert len(hits) == 18
    for event in hits:
        hit = table.details.hits[event["parent"]]
        at, cpu = int(hit["id"]) - 0x400, int(event["cpu"])
        assert int(table.addresses[event["ip"]]) == 0x1000 + cpu
        assert int(hit["parent"]) == 0x2000 + at
        assert hit["regs"].tolist() == rows[cpu, at]
    assert len(table.take(slice(0, 5)).details.hits) == 18


def test_the_last_hit_is_found_by_row_time_and_cpu() -> None:
    layout = PageFormat("little", 8, registers=1)

    def one(page: Page) -> Decoded:
        return layout.decode(np.frombuffer(page.bytes(), np.uint8).reshape(1, 4096))

    zero = Page(stamp=10).function(0, 1, 2).hit(5, 0x400, 1, 2, [7]).function(5, 1, 2)
    other = Page(stamp=12).hit(0, 0x400, 1, 2, [8]).hit(20, 0x400, 1, 2, [9])
    table = EventTable.merge([(0, one(zero)), (1, one(other))])
    assert table.events["ts"].tolist() == [10, 12, 15, 20, 32]
    assert table.last_hit() == 4
    assert table.last_hit(4) == table.last_hit(3) == 2
    assert table.last_hit(1) is None
    assert table.last_hit(latest=31) == table.last_hit(latest=10**30, cpu=0) == 2
    assert table.last_hit(latest=31, cpu=1) == 1
    assert table.last_hit(latest=11) is None


def test_an_event_too_short_for_a_hit_is_not_a_hit() -> None:
    layout = PageFormat("little", 8, registers=4)
    page = Page().hit(0, 0x400, 1, 2, [3, 4, 5]).hit(0, 0x400, 1, 2, [3, 4, 5, 6])
    decoded = layout.decode(np.frombuffer(page.bytes(), np.uint8).reshape(1, 4096))
    table = EventTable.merge([(0, decoded)])
    assert table.events["type"].tolist() == [0, HIT]
    assert not table.damaged


def test_many_addresses_are_distinguished() -> None:
    rng = np.random.default_rng(3)
    expected = rng.integers(0, 2**63, 30_000, np.uint64)
    expected[::100] = 0
    built = []
    for start in range(0, len(expected), 100):
        page = Page(stamp=start)
        for ip in expected[start : start + 100]:
            page.function(1, int(ip), int(ip) ^ 1)
        built.append(page)
    table = EventTable.merge((0, part) for part in [decode(*built[:150]), decode(*built[150:])])
    assert np.array_equal(table.ips(), expected)
    parents = table.addresses[table.events["parent"]]
    assert np.array_equal(parents, expected ^ np.uint64(1))
    assert len(np.unique(table.addresses)) == len(table.addresses)


def test_rows_are_found_by_function() -> None:
    page = Page().function(0, 0x10, 0x20).function(1, 0x20, 0x10).function(1, 0x10, 0)
    table = EventTable.merge([(0, decode(page))])
    assert table.rows_of(0x10).tolist() == [0, 2]
    assert table.rows_of(0x77).tolist() == []


def test_damaged_pages_are_counted_and_no_pages_give_no_events() -> None:
    torn = Page().function(0, 1, 2).raw(Page().header(28, 0))
    assert EventTable.merge([(0, decode(torn)), (1, decode(torn))]).damaged == 2
    assert len(EventTable.merge([])) == 0
    assert len(EventTable()) == 0


def test_events_whose_time_goes_back_keep_the_buffers_order() -> None:
    zero = Page(stamp=50).function(0, 0x10, 1)
    back = Page(stamp=20).function(0, 0x11, 1)
    one = Page(stamp=30).function(0, 0x20, 1).function(30, 0x21, 1)
    table = EventTable.merge([(0, decode(zero)), (0, decode(back)), (1, decode(one))])
    assert table.ips().tolist() == [0x20, 0x10, 0x11, 0x21]
