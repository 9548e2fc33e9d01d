"""Rows and events, compared with a plain list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.trace.text.rowmap import RowMap


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.sets(st.integers(0, 11)))
def test_each_row_is_a_line_of_its_event(extra: list[int], listed: set[int]) -> None:
    """Events without extra lines may or may not be listed."""
    events = [n for n, more in enumerate(extra) if more or n in listed]
    rows = RowMap(
        len(extra), np.array(events, np.intp), np.array([extra[n] for n in events], np.intp)
    )
    expected = [(n, part) for n, more in enumerate(extra) for part in range(more + 1)]
    assert len(rows) == len(expected)
    found = rows.of(np.arange(len(rows)))
    assert list(zip(*(each.tolist() for each in found), strict=True)) == expected
    assert [rows.row_of(n) for n in range(len(extra))] == [
        expected.index((n, 0)) for n in range(len(extra))
    ]
