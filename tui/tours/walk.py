"""A tour that is being taken: the current step, and what happened in it.

A `Walk` is asked after each command whether the step is done. It looks at the machine
through commands that change nothing, and at the effects of what the student did: so it
does not matter whether that was done by a key, a command or "show me".
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.shell.outcome import Effect
from .tour import Execute, Step, Tour


class Walk:
    """A tour and the current step in it."""

    def __init__(self, tour: Tour, at: int = 0) -> None:
        """`at` is the step to begin with, from 0."""
        self.tour = tour
        self.at = min(max(at, 0), len(tour.steps) - 1)
        self.done = False
        """Whether all checks of the step have held."""
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
        """What happened during this step."""
        return tuple(self._effects)

    def did(self, effects: Iterable[Effect]) -> None:
        """Note what happened during this step."""
        self._effects += effects

    def look(self, execute: Execute) -> bool:
        """Check whether the step is done; once done it stays so."""
        self.found(self.at, self.step.done(self._effects, execute))
        return self.done

    def found(self, at: int, done: bool) -> None:
        """Note whether step `at` is done, if it is still the current one."""
        if at == self.at:
            self.done = self.done or done

    def go(self, steps: int) -> bool:
        """Go on by `steps`, or back if negative; return whether there is such a step."""
        at = self.at + steps
        if not 0 <= at < len(self.tour.steps):
            return False
        self.at, self.done = at, False
        self._effects.clear()
        return True
