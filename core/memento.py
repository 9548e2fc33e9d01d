"""Mementos: each object that a checkpoint covers has a method `save`.

It returns a function that restores the state the object has now, as often as it is called. An
object saves only what it owns, and shares values that never change.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Restore: TypeAlias = Callable[[], None]
"""Restores the object whose `save` returned it."""

_CHANGING = (list, dict, set, deque)
"""The types of values that are copied, besides arrays; all other values are shared."""


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
    # An array is known by its protocol: importing numpy would delay the first paint.
    changing = isinstance(value, _CHANGING) or hasattr(value, "__array__")
    return copy.copy(value) if changing else value
