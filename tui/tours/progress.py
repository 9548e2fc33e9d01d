"""The user's progress in each lesson, saved between runs, and the report of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_state_path

from ...core.errors import DynftraceError
from ..files.whole_file import write_whole
from . import course
from .tour import Step, Tour
from .walk import Walk


@dataclass(frozen=True, slots=True)
class Finished:
    """How the user finished a step."""

    hints: int = 0
    """Number of hints that the user asked for."""
    shown: bool = False
    """Whether the program did the step ("show me")."""


class Progress:
    """The finished steps of each lesson, by their titles, in a file of the user."""

    def __init__(self, path: Path | None = None) -> None:
        """Read `path`, by default `tours.json` in the user's state directory."""
        self._path = path or user_state_path("dynftrace") / "tours.json"
        self._done = self._read()

    def finished(self, tour: Tour, step: Step) -> Finished | None:
        """Return how `step` was finished; None if it was not."""
        return self._done.get(course.key(tour), {}).get(step.title)

    def of(self, tour: Tour) -> int:
        """Return the number of finished steps of `tour`."""
        return sum(self.finished(tour, step) is not None for step in tour.steps)

    def next(self, tour: Tour) -> int:
        """Return the first step that is not finished, counted from 0; the first if all are."""
        open_steps = (at for at, step in enumerate(tour.steps) if not self.finished(tour, step))
        return next(open_steps, 0)

    def reached(self, walk: Walk) -> None:
        """Save that the current step of `walk` is finished, unless it was before.

        Raises `DynftraceError`.
        """
        if self.finished(walk.tour, walk.step) is not None:
            return
        steps = self._done.setdefault(course.key(walk.tour), {})
        steps[walk.step.title] = Finished(walk.hinted, walk.shown)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DynftraceError(f"{self._path}: {error.strerror or error}") from error
        saved = {
            name: {title: asdict(how) for title, how in done.items()}
            for name, done in self._done.items()
        }
        text = json.dumps(saved, indent=1, sort_keys=True, ensure_ascii=False)
        write_whole(self._path, text + "\n")

    def _read(self) -> dict[str, dict[str, Finished]]:
        """Return the content of the file; damaged or missing entries count as not finished."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        done: dict[str, dict[str, Finished]] = {}
        for name, steps in found.items() if isinstance(found, dict) else ():
            for title, how in steps.items() if isinstance(steps, dict) else ():
                if isinstance(how, dict):
                    done.setdefault(name, {})[title] = _how(how)
        return done


def _how(saved: Mapping[str, object]) -> Finished:
    hints, shown = saved.get("hints"), saved.get("shown")
    return Finished(hints if isinstance(hints, int) else 0, shown is True)


def report(student: str, tours: Iterable[Tour], progress: Progress) -> str:
    """Return the progress of `student` in `tours`, as JSON that ends in a newline."""
    lessons = []
    for tour in tours:
        steps = []
        for step in tour.steps:
            how = progress.finished(tour, step)
            row: dict[str, object] = {"title": step.title, "done": how is not None}
            steps.append(row if how is None else row | asdict(how))
        lessons.append(
            {
                "name": tour.name,
                "title": tour.title,
                "done": progress.of(tour),
                "of": len(tour.steps),
                "steps": steps,
            }
        )
    return json.dumps({"student": student, "lessons": lessons}, indent=1, ensure_ascii=False) + "\n"
