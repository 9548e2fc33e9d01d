"""Distinct values agree with those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.core.distinct import distinct


@pytest.mark.parametrize(
    "values", [[], [7], [3, 1, 3, 2, 1], [1, 1, 2, 5], [2**64 - 1, 0, 2**64 - 1]]
)
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    found = distinct(array)
    assert found.dtype == array.dtype and (found == np.unique(array)).all()
    assert len(found) == len({*values})


def test_the_shape_does_not_matter() -> None:
    assert distinct(np.array([[3, 1], [1, 3]])).tolist() == [1, 3]
