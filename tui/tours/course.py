"""Courses: find lessons by name or by path, and the next lesson.

The program comes with two courses, the tours and the labs. A folder of Markdown files is a
course too, in the order of the file names; `NN-` at the start of a name is only for the order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import UsageError
from . import lesson_file
from .tour import Tour

_LESSONS = Path(__file__).parent / "lessons"

SUFFIX = ".md"


@dataclass(frozen=True, slots=True)
class Course:
    """Lessons in their order."""

    title: str
    paths: tuple[Path, ...]

    def names(self) -> list[str]:
        """Return the names of the lessons in their order."""
        return [_name(path) for path in self.paths]


def _name(path: Path) -> str:
    return re.sub(r"^\d+-", "", path.stem)


def _in(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob(f"*{SUFFIX}")))


TOURS = Course("Tours", _in(_LESSONS / "tours"))
LABS = Course("Labs", _in(_LESSONS / "labs"))


def names() -> list[str]:
    """Return the names of all tours and labs, in the recommended order."""
    return [*TOURS.names(), *LABS.names()]


def load(name: str) -> Tour:
    """Load the tour or lab `name`. Raises `UsageError` if it does not exist or is invalid."""
    for path in (*TOURS.paths, *LABS.paths):
        if _name(path) == name:
            return lesson_file.read(path, name)
    raise UsageError(
        f"unknown tour '{name}': give the path of a lesson, or choose from: {', '.join(names())}"
    )


def load_path(path: Path) -> Tour:
    """Load the lesson in the file `path`. Raises `UsageError`."""
    return lesson_file.read(path, _name(path), None if is_ours(path) else _commands())


def is_ours(path: Path) -> bool:
    """Return whether the lesson in the file `path` comes with the program."""
    return path in (*TOURS.paths, *LABS.paths)


def _commands() -> Collection[str]:
    """Return the names of the shell's commands, to find misspelt ones in a lesson."""
    from ...core.shell.commands import commands

    return {*commands(), "port"}


def find(text: str) -> Course:
    """Return the course that `text` means: the name of a tour or lab, a file, or a folder.

    Raises `UsageError` if the lesson does not exist.
    """
    for course in (TOURS, LABS):
        if text in course.names():
            return Course(course.title, course.paths[course.names().index(text) :][:1])
    path = Path(text)
    if path.is_dir():
        found = _in(path)
        if not found:
            raise UsageError(f"{path}: the folder has no lessons (files named *{SUFFIX})")
        return Course(str(path), found)
    if "/" in text or text.endswith(SUFFIX) or path.exists():
        return Course(str(path), (path,))
    load(text)
    raise AssertionError


def following(path: Path | None) -> Path | None:
    """Return the lesson after `path`: the next one in its folder, or the first lab."""
    if path is None:
        return None
    around = _in(path.parent)
    after = around[around.index(path) + 1 :] if path in around else ()
    if not after and path in TOURS.paths:
        after = LABS.paths
    return next(iter(after), None)


def title_of(path: Path) -> str:
    """Return the title of the lesson in `path`; its name if the lesson is invalid."""
    try:
        return load_path(path).title
    except UsageError:
        return _name(path)


def key(tour: Tour) -> str:
    """Return the name under which progress in `tour` is saved."""
    own = tour.path is not None and tour.path not in (*TOURS.paths, *LABS.paths)
    return str(tour.path.resolve()) if own and tour.path is not None else tour.name


def ours() -> Sequence[Tour]:
    """Load all tours and labs."""
    return [lesson_file.read(path, _name(path)) for path in (*TOURS.paths, *LABS.paths)]
