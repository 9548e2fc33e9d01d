"""The callbacks that undo a change of ftrace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Undo(ExitStack):
    """An `ExitStack` whose callbacks can be kept, to be called later or more than once."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Callable[[], object]] = []

    def callback(
        self, callback: Callable[_P, _T], /, *args: _P.args, **kwds: _P.kwargs
    ) -> Callable[_P, _T]:
        """Add a callback, as `ExitStack.callback`."""
        self._steps.append(partial(callback, *args, **kwds))
        return super().callback(callback, *args, **kwds)

    def taken(self) -> tuple[Callable[[], object], ...]:
        """Return the callbacks so far, oldest first."""
        return tuple(self._steps)
