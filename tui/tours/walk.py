"""A tour that is being taken: the current step, what happened in it, and saved progress.

A `Walk` is asked after each command whether the step is done. It looks at the machine
through commands that change nothing, and at the effects of what the student did: so it
does not matter whether that was done by a key, a command or "show me".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_state_path

from ...core.shell.outcome import Effect
from ..files.whole_file import write_whole
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


class Progress:
    """The number of finished steps of each tour, kept in a file of the user."""

    def __init__(self, path: Path | None = None) -> None:
        """`path` is by default `tours.json` in the user's state directory."""
        self._path = path or user_state_path("dynftrace") / "tours.json"
        self._done = self._read()

    def of(self, tour: Tour) -> int:
        """Return the number of finished steps of `tour`."""
        return min(self._done.get(tour.name, 0), len(tour.steps))

    def next(self, tour: Tour) -> int:
        """Return the step to go on with, from 0; the first if the tour was finished."""
        return self.of(tour) % len(tour.steps)

    def reached(self, tour: Tour, steps: int) -> None:
        """Record that `steps` steps are finished. Raises `DynftraceError` if it cannot be saved."""
        if steps <= self.of(tour):
            return
        self._done[tour.name] = steps
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(self._done, indent=1, sort_keys=True) + "\n")

    def _read(self) -> dict[str, int]:
        """Read the file; a damaged one counts as empty."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {str(name): steps for name, steps in found.items() if isinstance(steps, int)}
