"""The committed drawings agree with what the console shows.

If a drawing changes on purpose, run `make screenshots` and review the diff of its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path

import pytest

from dynftrace.tui.pictures.picture import LOOKS
from dynftrace.tui.pictures.rows import rows_of
from dynftrace.tui.pictures.screenshots import MOVIE, PICTURES, consoles, draw, files, index

ROOT = Path(__file__).parents[3]
PICTURE_FOLDER = ROOT / "screenshots"
TEXT_FOLDER = Path(__file__).parents[1] / "screens"

CONSOLES = consoles()
ROWS = {name: size[1] for size, named in CONSOLES.values() for name in named}
"""The drawings, and the number of rows of each."""

DEFAULT_COLOUR = "c5c8c6"
"""The colour that the export gives text without a colour."""


def text_of(svg: str, name: str) -> str:
    """Return the text of the picture of the drawing `name`."""
    return "".join(f"{row.text}\n" for row in rows_of(svg, ROWS[name]))


@pytest.mark.parametrize("console", CONSOLES)
def test_the_console_shows_the_committed_drawings(console: str) -> None:
    wrong: list[str] = []
    for name, drawn in draw(console).items():
        text, *pictures = (
            path.read_text(encoding="utf-8") for path in files(PICTURE_FOLDER, TEXT_FOLDER, name)
        )
        lines = text.splitlines(), drawn.text.splitlines()
        wrong += unified_diff(*lines, f"{name}, committed", f"{name}, drawn", lineterm="")
        for (look, made), committed in zip(drawn.pictures.items(), pictures, strict=True):
            if made != committed:
                wrong.append(f"{look}/{name}.svg differs")
            assert text_of(made, name) == drawn.text
    assert not wrong, "\n".join(("run `make screenshots` if this is on purpose:", *wrong))


def test_no_other_drawings_are_committed() -> None:
    found = {*PICTURE_FOLDER.rglob("*.svg"), *TEXT_FOLDER.iterdir()} - {PICTURE_FOLDER / MOVIE}
    assert found == {path for name in ROWS for path in files(PICTURE_FOLDER, TEXT_FOLDER, name)}


def test_the_index_links_to_all_drawings() -> None:
    assert (PICTURE_FOLDER / "README.md").read_text(encoding="utf-8") == index()


def test_pictures_in_the_documents_exist() -> None:
    shown = {
        (path.parent / target).resolve()
        for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"!\[[^]]*\]\(([^):]+\.svg)\)", path.read_text(encoding="utf-8"))
    }
    assert len(shown) >= 8
    assert {path for path in shown if not path.is_file()} == set()


@pytest.mark.parametrize("name", [name for name, looks in PICTURES.items() if len(looks) > 1])
def test_themes_differ_only_in_colours(name: str) -> None:
    by_look = {
        look: (PICTURE_FOLDER / look / f"{name}.svg").read_text(encoding="utf-8") for look in LOOKS
    }
    assert len({text_of(svg, name) for svg in by_look.values()}) == 1
    ground = {look: brightness(grounds(svg)) for look, svg in by_look.items()}
    assert ground["dark"] < 90 and ground["no-colour"] < 90
    assert ground["light"] > 180
    assert any(not grey(colour) for colour in colours(by_look["dark"]))
    assert any(not grey(colour) for colour in colours(by_look["light"]))
    assert all(grey(colour) for colour in colours(by_look["no-colour"]))


def colours(svg: str) -> set[str]:
    """Return the colours set for text and backgrounds, as six hexadecimal digits."""
    letters = re.findall(r"\.terminal-r\d+ \{ fill: #([0-9a-f]{6})", svg)
    return {*grounds(svg), *letters} - {DEFAULT_COLOUR}


def grounds(svg: str) -> list[str]:
    """Return the colour of each background rectangle."""
    return re.findall(r'<rect fill="#([0-9a-f]{6})" x=', svg)


def brightness(found: Iterable[str]) -> float:
    """Return the mean of all channels, 0 to 255."""
    channels = [channel for colour in found for channel in bytes.fromhex(colour)]
    return sum(channels) / len(channels)


def grey(colour: str) -> bool:
    """Return whether the three channels are equal."""
    return len(set(bytes.fromhex(colour))) == 1
