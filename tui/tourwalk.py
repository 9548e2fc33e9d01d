"""A tour being taken: where one is, what was done, and how far one has come before.

A `Walk` is asked after each command whether the step is done. It looks at the machine
through commands that change nothing, so it does not matter by which way something was
done: by a key, in the command line, or by "show me".
"""

from __future__ import annotations

import json
from pathlib import Path

from platformdirs import user_state_path

from .tour import Execute, Step, Tour
from .wholefile import write_whole


class Walk:
    """One tour from its first step to its last."""

    def __init__(self, tour: Tour, at: int = 0) -> None:
        """`at` is the step to begin with."""
        self.tour = tour
        self.at = min(max(at, 0), len(tour.steps) - 1)
        self.done = False
        """Whether all checks of the step have held."""
        self._ran: list[str] = []

    @property
    def step(self) -> Step:
        """The step one is at."""
        return self.tour.steps[self.at]

    @property
    def last(self) -> bool:
        """Whether no step follows."""
        return self.at == len(self.tour.steps) - 1

    @property
    def ran(self) -> tuple[str, ...]:
        """The commands of this step."""
        return tuple(self._ran)

    def told(self, command: str) -> None:
        """A command was executed."""
        self._ran.append(command)

    def look(self, execute: Execute) -> bool:
        """See whether the step is done; once it was it stays so."""
        self.found(self.at, self.step.done(self._ran, execute))
        return self.done

    def found(self, at: int, done: bool) -> None:
        """Step `at`, if it is still the one, has been looked at."""
        if at == self.at:
            self.done = self.done or done

    def go(self, steps: int) -> bool:
        """Go on, or back by a negative number; whether there was a step to go to."""
        at = self.at + steps
        if not 0 <= at < len(self.tour.steps):
            return False
        self.at, self.done = at, False
        self._ran.clear()
        return True


class Progress:
    """How many steps of each tour were done, kept in a file of the user's."""

    def __init__(self, path: Path | None = None) -> None:
        """`path` is by default `tours.json` in the user's folder of state."""
        self._path = path or user_state_path("dynftrace") / "tours.json"
        self._done = self._read()

    def of(self, tour: Tour) -> int:
        """Steps of `tour` that were done."""
        return min(self._done.get(tour.name, 0), len(tour.steps))

    def next(self, tour: Tour) -> int:
        """The step to go on with, from 0; the first of a tour that was taken to its end."""
        return self.of(tour) % len(tour.steps)

    def reached(self, tour: Tour, steps: int) -> None:
        """So many steps are done now. Raises `DynftraceError` where that cannot be kept."""
        if steps <= self.of(tour):
            return
        self._done[tour.name] = steps
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(self._done, indent=1, sort_keys=True) + "\n")

    def _read(self) -> dict[str, int]:
        """What was kept; a file that makes no sense is as none."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {str(name): steps for name, steps in found.items() if isinstance(steps, int)}
