"""Counting events by function, compared with a plain count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.abi import TraceType
from dynftrace.core.trace.buffer import events as event_tables
from dynftrace.core.trace.buffer.events import EVENT, EventTable

KINDS = [0, *(int(kind) for kind in TraceType)]
ADDRESSES = np.array([0, 0x1000, 0x2000, 0x3000], np.uint64)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(KINDS)), max_size=40))
def test_only_calls_are_counted(rows: list[tuple[int, int]]) -> None:
    events = np.zeros(len(rows), EVENT)
    events["ip"] = [ip for ip, _ in rows]
    events["type"] = [kind for _, kind in rows]
    calls = [ip for ip, kind in rows if kind in (TraceType.FN, TraceType.GRAPH_ENT)]
    found = EventTable(events, ADDRESSES).entries()
    assert found.tolist() == [0, *(calls.count(ip) for ip in (1, 2, 3))]


def test_counts_of_many_blocks_are_added_up() -> None:
    events = np.zeros(3 * event_tables._BLOCK + 7, EVENT)
    events["ip"] = np.arange(len(events)) % 4
    events["type"] = TraceType.FN
    assert EventTable(events, ADDRESSES).entries()[1:].sum() == len(events) - len(events[::4])
    assert EventTable().entries().tolist() == []
