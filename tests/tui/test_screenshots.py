"""The committed screenshots show what the console shows now.

A picture that differs on purpose is made again by `make screenshots`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.tui.screenshots import draw, pictures

FOLDER = Path(__file__).parents[2] / "screenshots"

PICTURES = {name: (scene, size) for name, scene, size in pictures()}


@pytest.mark.parametrize("name", PICTURES)
def test_is_true(name: str) -> None:
    scene, size = PICTURES[name]
    committed = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert draw(scene, size) == committed, "make screenshots draws it anew; look at it"


def test_there_are_no_others() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
