"""Which rows count as met: a target, or the limit of a target that is out of reach."""

from __future__ import annotations

import itertools

import pytest

from .__main__ import BEGIN, DOCUMENT, END
from .measure import MOST, Limit, at_least, at_most, in_turn, percentile, unsteadiness


@pytest.mark.parametrize(
    ("ratio", "limit", "met", "note"),
    [
        (1.9, None, True, ""),
        (2.1, None, False, ""),
        (1.9, 3.0, True, ""),
        (2.1, 3.0, True, "limit <= 3: reason"),
        (3.1, 3.0, False, "limit <= 3: reason"),
        (1.9, 1.5, True, ""),  # a limit within the target asks for no more than the target
        (2.1, 1.5, False, ""),  # and excuses nothing
    ],
)
def test_the_highest_ratio(ratio: float, limit: float | None, met: bool, note: str) -> None:
    row = at_most("it", "1 ms", ratio, "other", 2, limit and Limit(limit, "reason"))
    assert (row.met, row.note, row.target) == (met, note, "<= 2")


@pytest.mark.parametrize(
    ("ratio", "limit", "met", "note"),
    [
        (0.41, None, True, ""),
        (0.39, None, False, ""),
        (0.41, 0.3, True, ""),
        (0.39, 0.3, True, "limit >= 0.3: reason"),
        (0.29, 0.3, False, "limit >= 0.3: reason"),
        (0.41, 0.5, True, ""),
        (0.39, 0.5, False, ""),
    ],
)
def test_the_lowest_ratio(ratio: float, limit: float | None, met: bool, note: str) -> None:
    row = at_least("it", "1 ms", ratio, "other", 0.4, limit and Limit(limit, "reason"))
    assert (row.met, row.note, row.target) == (met, note, ">= 0.4")


def test_a_limit_is_beside_the_verdict() -> None:
    row = at_most("it", "1 ms", 2.5, "other", 2, Limit(3, "why"))
    assert row.cells()[-1] == "yes (limit <= 3: why)"
    row = at_most("it", "1 ms", 3.5, "other", 2, Limit(3, "why"))
    assert row.cells()[-1] == "NO (limit <= 3: why)"


def test_percentile_by_nearest_rank() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.95) == 96
    assert percentile([3.0], 0.95) == 3


def test_steady_works_are_measured_no_more_often_than_asked() -> None:
    assert in_turn(lambda: 2.0, lambda: 1.0, rounds=7) == [(2.0, 1.0)] * 7


def test_unsteady_works_are_measured_more_often() -> None:
    takes = itertools.cycle([1.0, 2.0, 4.0])
    times = in_turn(lambda: next(takes), lambda: 1.0, rounds=7)
    assert 7 < len(times) <= 7 * MOST


def test_unsteadiness_ignores_outliers() -> None:
    assert unsteadiness([1.0] * 9 + [50.0]) == 0
    assert unsteadiness([1.0, 2.0, 3.0, 4.0]) > unsteadiness([1.0, 2.0, 3.0, 4.0] * 10)


def test_the_document_has_a_place_for_the_table() -> None:
    text = DOCUMENT.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
