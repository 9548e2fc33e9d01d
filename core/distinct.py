"""Distinct values of an array, without the modules that `np.unique` loads."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def distinct(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return the distinct values of an array, ascending, shape (n,).

    `np.unique` does the same, but its first call loads `numpy.ma`, which takes longer than
    opening a machine.
    """
    kept = _without_repeats(values.ravel())
    if np.greater(kept[1:], kept[:-1]).all():
        return kept
    ordered: NDArray[Any] = np.sort(kept)
    return _without_repeats(ordered)


def _without_repeats(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return the values that differ from the one before them."""
    first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]
