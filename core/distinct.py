"""Distinct values of an array, without what numpy loads for them."""

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
    ordered: NDArray[Any] = np.sort(values, axis=None)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
