"""A tour that is being taken: the current step, and what happened in it.

After each command, a `Walk` checks whether the step is done. It inspects the machine with
commands that change nothing, and the effects of what the student did. So a key, a command
and "show me" all count.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.shell.outcome import Effect
from .tour import Execute, Step, Tour


class Walk:
    """A tour, its current step, and what happened during that step."""

    def __init__(self, tour: Tour, at: int = 0) -> None:
        """Begin with step `at`, counted from 0."""
        self.tour = tour
        self.at = min(max(at, 0), len(tour.steps) - 1)
        self.done = False
        """Whether all checks of the step have held at the same time."""
        self._effects: list[Effect] = []

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
        """Effects of what the student did during this step, in order."""
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

    def go(self, steps: int) -> bool:
        """Move `steps` forward, or back if negative; return whether that step exists."""
        at = self.at + steps
        if not 0 <= at < len(self.tour.steps):
            return False
        self.at, self.done = at, False
        self._effects.clear()
        return True
