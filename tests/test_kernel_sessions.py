"""Sessions with a distribution's kernel, as README and the guide show them, are real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .support.kernel_sessions import Shown, replay, sessions

ROOT = Path(__file__).parents[1]

NUMBER = re.compile(r"\b(?:0x)?(?:[0-9a-f]{16}|[0-9a-f]{8}|[0-9a-f]{2}|\d[0-9a-f.]*)\b")


def shown() -> Iterator[object]:
    for page in ("README.md", "docs/guide.md"):
        for session in sessions((ROOT / page).read_text(encoding="utf-8")):
            yield pytest.param(session, id=f"{page}-{session.release}")


@pytest.mark.parametrize("session", shown())
def test_a_session_of_the_pages_is_real(session: Shown) -> None:
    """With a newer package than the page's, numbers may differ: its addresses are others."""
    release, steps = replay(session)
    for (command, output), (_, found) in zip(session.steps, steps, strict=True):
        expected = output.rstrip("\n")
        if release != session.release:
            found, expected = NUMBER.sub("#", found), NUMBER.sub("#", expected)
        assert found == expected, command


def test_each_page_has_its_sessions() -> None:
    readme, guide = (
        sessions((ROOT / page).read_text(encoding="utf-8"))
        for page in ("README.md", "docs/guide.md")
    )
    assert [each.arch for each in readme] == ["arm64"]
    assert [each.arch for each in guide] == ["arm64", "amd64"]
    assert "cat trace" in dict(readme[0].steps) and "call native_halt" in dict(guide[1].steps)
