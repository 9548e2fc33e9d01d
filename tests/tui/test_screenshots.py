"""The committed screenshots show what the console shows now.

A picture that differs on purpose is made again by `make screenshots`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.tui.picture import LOOKS
from dynftrace.tui.screenshots import draw, index, pictures

FOLDER = Path(__file__).parents[2] / "screenshots"

PICTURES = {name: (scene, size) for name, scene, size in pictures()}


@pytest.mark.parametrize("name", PICTURES)
def test_is_true(name: str) -> None:
    scene, size = PICTURES[name]
    drawn = draw(scene, size)
    assert set(drawn) == set(LOOKS)
    for look, made in drawn.items():
        committed = (FOLDER / look / f"{name}.svg").read_text(encoding="utf-8")
        assert made == committed, f"{look}: make screenshots draws it anew; look at it"


def test_there_are_no_others() -> None:
    files = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.svg")}
    assert files == {f"{look}/{name}" for look in LOOKS for name in PICTURES}


def test_the_page_leads_to_all() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == index()
