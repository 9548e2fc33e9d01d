"""The whole example of docs/lessons.md can be taken, and a new lesson too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynftrace.tui.cli.tour import check_tour
from dynftrace.tui.tours import course
from dynftrace.tui.tours.lesson_file import BLOCKS, SETTINGS
from dynftrace.tui.tours.new_lesson import write_new
from dynftrace.tui.tours.tour import DEEDS

from .support.keystone import needs_keystone

DOCUMENT = (Path(__file__).parents[1] / "docs" / "lessons.md").read_text(encoding="utf-8")


@needs_keystone
def test_the_example_can_be_completed(tmp_path: Path) -> None:
    (example,) = re.findall(r"^````markdown\n(.*?)^````$", DOCUMENT, re.MULTILINE | re.DOTALL)
    (tmp_path / "x.md").write_text(example)
    steps = list(check_tour(course.load_path(tmp_path / "x.md")))
    assert len(steps) == 2 and not any(reason for _, reason in steps)


def test_a_new_lesson_can_be_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = list(check_tour(course.load_path(write_new("my-lesson"))))
    assert len(steps) == 2 and not any(reason for _, reason in steps)


def test_everything_that_a_lesson_may_have_is_explained() -> None:
    said = set(re.findall(r"`([^`\n]+)`", DOCUMENT))
    assert {*SETTINGS, *BLOCKS, *DEEDS} <= said
