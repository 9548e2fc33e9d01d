"""A tour being taken: the current step, and the events during it.

After each command, a `Walk` checks whether the step is done. It inspects the machine with
commands that change nothing, and the effects of what the student did. So a key, a command
and "show me" all count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...core.shell.outcome import Effect
from .tour import Execute, Step, Tour

if TYPE_CHECKING:
    from ...core.session.session import Session


class Walk:
    """A tour, its current step, and the events during that step."""

    def __init__(self, tour: Tour, at: int = 0) -> None:
        """Begin with step `at`, counted from 0."""
        self.tour = tour
        self.at = min(max(at, 0), len(tour.steps) - 1)
        self.done = False
        """Whether all checks of the step have held at the same time."""
        self.hinted = 0
        """Number of hints that the student has asked for."""
        self.shown = False
        """Whether "show me" did the step before the student had done it."""
        self._effects: list[Effect] = []

    def open(self) -> Session:
        """Open the tour's machine for the current step. Raises what `Tour.open` raises."""
        return self.tour.open(self.at)

    @property
    def step(self) -> Step:
        """The current step."""
        return self.tour.steps[self.at]

    @property
    def last(self) -> bool:
        """Whether this is the last step."""
        return self.at == len(self.tour.steps) - 1

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Effects of the student's actions during this step, in order."""
        return tuple(self._effects)

    def did(self, effects: Iterable[Effect]) -> None:
        """Record effects that happened during this step."""
        self._effects += effects

    def look(self, execute: Execute) -> bool:
        """Check whether the step is done, and return that; a finished step stays done."""
        self.found(self.at, self.step.done(self._effects, execute))
        return self.done

    def found(self, at: int, done: bool) -> None:
        """Record the result of a check of step `at`; ignored if the step has changed since."""
        if at == self.at:
            self.done = self.done or done

    def hint(self) -> str:
        """Return the next hint of the step; after the last one, that one again. "" if none."""
        hints = self.step.hints
        if self.hinted < len(hints):
            self.hinted += 1
        return hints[self.hinted - 1] if hints else ""

    def go(self, steps: int) -> bool:
        """Move `steps` forward, or back if negative; return whether that step exists."""
        at = self.at + steps
        if not 0 <= at < len(self.tour.steps):
            return False
        self.at, self.done, self.hinted, self.shown = at, False, 0, False
        self._effects.clear()
        return True
