"""Events found again by time, CPU and address."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace.core.session.session import Session
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.select.eventindex import EventIndex
from dynftrace.core.trace.select.explorer import TraceExplorer

EVENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 2)), max_size=30)


def table(rows: list[tuple[int, int, int]]) -> EventTable:
    events = np.zeros(len(rows), EVENT)
    for name, column in zip(("ts", "cpu", "ip"), zip(*rows, strict=True), strict=False):
        events[name] = column
    return EventTable(events, np.array([0, 64, 128], np.uint64))


@settings(deadline=None)
@given(EVENTS)
def test_each_event_is_found_by_its_key(rows: list[tuple[int, int, int]]) -> None:
    """Times are in any order, as in a damaged page."""
    places = EventIndex(table(rows))
    every = np.arange(len(rows))
    keys = places.keys(every)
    assert places.events(keys).tolist() == every.tolist()
    assert len({key.tolist() for key in keys}) == len(rows)


@settings(deadline=None)
@given(EVENTS, EVENTS)
def test_an_old_key_is_found_until_its_event_is_overwritten(
    rows: list[tuple[int, int, int]], more: list[tuple[int, int, int]]
) -> None:
    rows, more = sorted(rows), sorted((time + 5, cpu, ip) for time, cpu, ip in more)
    keys = EventIndex(table(rows)).keys(np.arange(len(rows)))
    later = EventIndex(table(rows + more)).events(keys)
    assert later.tolist() == list(range(len(rows)))
    assert set(EventIndex(table(more)).events(keys).tolist()) <= {-1}


def test_rows_of_a_trace_are_found_after_the_buffer_wraps(
    session: Session, sh: Callable[[str], str]
) -> None:
    sh("echo 32 > buffer_size_kb; echo 1 > options/func_stack_trace")
    sh("echo 'vfs_*' schedule > set_ftrace_filter; echo function > current_tracer")
    sh("run syscalls 3")
    before = TraceExplorer(session.boot.array.follow())
    places = [before.key(row) for row in range(len(before))]
    assert before.rows_at(places) == list(range(len(before)))
    while before.text.texts(0, 1) == session.boot.array.follow().texts(0, 1):
        sh("run syscalls")
    after = TraceExplorer(session.boot.array.follow())
    rows = after.rows_at(places)
    assert None in rows
    lines = [None if row is None else after.text.texts(row, row + 1)[0] for row in rows]
    kept = [row for row, line in enumerate(lines) if line is not None]
    assert kept
    assert [lines[row] for row in kept] == [before.text.texts(row, row + 1)[0] for row in kept]
