"""Which checkpoints stay when there is room for few."""

from __future__ import annotations

from itertools import pairwise

from dynftrace.core.session.points import Point, Points, Stretch


def points(room: int) -> Points:
    """Return checkpoints of which `room` fit in the budget: each takes a byte."""
    found = Points(lambda: 0, lambda: 1)
    found.budget = room
    return found


def point(at: int, spent: float, run: Stretch | None = None, pinned: bool = False) -> Point:
    return Point((at, 0), (int(spent * 1e9),), spent, lambda: None, run, pinned)


def test_the_end_of_a_long_run_stays() -> None:
    """A checkpoint within the run cannot take its place, however near it is."""
    found, run = points(6), Stretch()
    found.add(lambda: point(0, 0.0))
    for tenth in range(1, 100):
        found.add(lambda: point(0, tenth / 10, run))  # noqa: B023  (it is called at once)
    end = point(1, 10.0)
    found.add(lambda: end)
    for number in range(2, 6):
        found.add(lambda: point(number, 10 + number / 100, pinned=True))  # noqa: B023
        assert end in list(found) and found.size <= found.budget
    assert found.last_between is found.last


def test_they_are_dense_near_the_present() -> None:
    found = points(12)
    for tenth in range(600):
        found.add(lambda: point(tenth, tenth / 10))  # noqa: B023
    spent = [each.spent for each in found]
    gaps = [after - before for before, after in pairwise(spent)]
    assert len(spent) == 12 and (spent[0], spent[-1]) == (0.0, 59.9)
    assert max(gaps[:4]) > 4 * max(gaps[-4:]) and max(gaps) < 60 / 4
