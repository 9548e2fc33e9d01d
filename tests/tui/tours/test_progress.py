"""Progress in lessons is saved between runs, and reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynftrace.core.errors import DynftraceError
from dynftrace.tui.tours import course
from dynftrace.tui.tours.progress import Finished, Progress, report
from dynftrace.tui.tours.walk import Walk


def test_progress_is_kept_by_the_titles_of_the_steps(tmp_path: Path) -> None:
    path, tour = tmp_path / "state" / "tours.json", course.load("call-site")
    assert (Progress(path).of(tour), Progress(path).next(tour)) == (0, 0)
    walk = Walk(tour, 2)
    walk.hint()
    walk.shown = True
    Progress(path).reached(walk)
    Progress(path).reached(Walk(tour))
    Progress(path).reached(Walk(tour, 2))  # doing it again changes nothing
    again = Progress(path)
    assert (again.of(tour), again.next(tour)) == (2, 1)
    assert again.finished(tour, tour.steps[2]) == Finished(hints=1, shown=True)
    assert again.finished(tour, tour.steps[0]) == Finished()
    for damaged in ("", "[1]", '{"call-site": 3}', '{"call-site": {"x": 1}}', "\x00", "[" * 10_000):
        path.write_text(damaged)
        assert Progress(path).of(tour) == 0


def test_lessons_of_one_name_in_two_folders_have_their_own_progress(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.md").write_text("+++\nsummary='s'\n+++\n# T\n## S\ntext\n")
    first, second = (course.load_path(tmp_path / each / "x.md") for each in "ab")
    progress = Progress(tmp_path / "tours.json")
    progress.reached(Walk(first))
    assert (progress.of(first), progress.of(second)) == (1, 0)


def test_the_report_says_who_finished_what_and_how(tmp_path: Path) -> None:
    progress, tour = Progress(tmp_path / "tours.json"), course.load("port")
    walk = Walk(tour, 1)
    walk.shown = True
    progress.reached(walk)
    said = json.loads(report("someone", [tour], progress))
    assert said["student"] == "someone"
    (lesson,) = said["lessons"]
    assert (lesson["name"], lesson["done"], lesson["of"]) == ("port", 1, len(tour.steps))
    assert lesson["steps"][0] == {"title": tour.steps[0].title, "done": False}
    assert lesson["steps"][1] == {
        "title": tour.steps[1].title,
        "done": True,
        "hints": 0,
        "shown": True,
    }


def test_progress_that_cannot_be_saved_is_one_of_our_errors(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    progress = Progress(tmp_path / "state" / "tours.json")
    with pytest.raises(DynftraceError, match=r"tours\.json: "):
        progress.reached(Walk(course.load("call-site")))
