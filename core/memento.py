"""Mementos: every object that a checkpoint covers has a `save`, which returns how to restore it.

`save()` returns a function that puts the object back into its present state, however often it
is called. An object saves only what is its own; values that never change are shared.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Restore: TypeAlias = Callable[[], None]
"""Restores the object whose `save` returned it."""

_CHANGING = (list, dict, set, deque, np.ndarray)
"""The types of values that are copied; all other values are shared."""


def attributes(owner: object, *names: str) -> Restore:
    """Return a function that restores the attributes `names` of `owner`.

    Containers and arrays are copied, but not the objects in them.
    """
    kept = {name: _copied(getattr(owner, name)) for name in names}

    def restore() -> None:
        for name, value in kept.items():
            setattr(owner, name, _copied(value))

    return restore


def in_order(*parts: Restore) -> Restore:
    """Return a function that calls all `parts`, in their order."""

    def restore() -> None:
        for part in parts:
            part()

    return restore


def _copied(value: object) -> object:
    return copy.copy(value) if isinstance(value, _CHANGING) else value
