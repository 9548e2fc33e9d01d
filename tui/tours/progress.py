"""The user's progress in each tour, saved between runs."""

from __future__ import annotations

import json
from pathlib import Path

from platformdirs import user_state_path

from ...core.errors import DynftraceError
from ..files.whole_file import write_whole
from .tour import Tour


class Progress:
    """The number of finished steps of each tour, in a file of the user."""

    def __init__(self, path: Path | None = None) -> None:
        """Read `path`, by default `tours.json` in the user's state directory."""
        self._path = path or user_state_path("dynftrace") / "tours.json"
        self._done = self._read()

    def of(self, tour: Tour) -> int:
        """Return the number of finished steps of `tour`."""
        return min(self._done.get(tour.name, 0), len(tour.steps))

    def next(self, tour: Tour) -> int:
        """Return the next step, counted from 0; the first one if the tour is finished."""
        return self.of(tour) % len(tour.steps)

    def reached(self, tour: Tour, steps: int) -> None:
        """Save that `steps` steps are finished, unless more are. Raises `DynftraceError`."""
        if steps <= self.of(tour):
            return
        self._done[tour.name] = steps
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DynftraceError(f"{self._path}: {error.strerror or error}") from error
        write_whole(self._path, json.dumps(self._done, indent=1, sort_keys=True) + "\n")

    def _read(self) -> dict[str, int]:
        """Return the content of the file; a missing or damaged file counts as empty."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            str(name): steps for name, steps in found.items() if type(steps) is int and steps > 0
        }
