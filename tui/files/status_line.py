"""The progress of a long task: a line of the terminal that is replaced, then removed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

from .terminal import can_move_cursor

T = TypeVar("T")

PATIENCE_S = 2.0
"""Host seconds before the line is shown: most tasks end sooner."""


class StatusLine:
    """The progress of `total` steps on `stream`; nothing is written unless it is a terminal.

    Call `clear` before other output, so that it does not begin within the line.
    """

    def __init__(
        self,
        what: str,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` names the task; the default `stream` is stderr."""
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._begin = clock()
        self._done = 0
        self._shown = False
        self._on = can_move_cursor(self._stream)

    def step(self) -> None:
        """One more step is done."""
        self._done += 1
        self.clear()
        passed = self._clock() - self._begin
        if self._on and passed >= PATIENCE_S and self._done < self._total:
            self._stream.write(how_far(self._what, self._done, self._total, passed))
            self._stream.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield `items`; each is a step that is done when the next one is asked for."""
        try:
            for item in items:
                self.clear()
                yield item
                self.step()
        finally:
            self.clear()


def how_far(what: str, done: int, total: int, passed: float) -> str:
    """Return `WHAT: DONE of TOTAL, about N s left`; `passed` is the host seconds so far."""
    left = passed / done * (total - done)
    return f"{what}: {done} of {total}, {_time(left)} left"


def _time(seconds: float) -> str:
    """Return a time as `about 40 s` or `about 3 min`."""
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"
