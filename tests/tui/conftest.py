"""An environment that makes pictures identical on every host."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Textual reads its variables when it is imported, which is after this.
for _name in list(os.environ):
    if _name.startswith("TEXTUAL_") or _name == "NO_COLOR":
        del os.environ[_name]


@pytest.fixture(autouse=True, scope="session")
def parsed_once() -> Iterator[None]:
    """Parse the console's style sheet once for all tests."""
    from ..support import headless

    with pytest.MonkeyPatch.context() as patch:
        headless.parse_once(patch)
        yield


PAINTED = {"console"}
"""Folders of tests that also paint each state of the console on its way to what they check."""


@pytest.fixture(autouse=True)
def unpainted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint only pictures, except in tests of the console itself."""
    from ..support import headless

    if request.path.parent.name not in PAINTED:
        headless.unpainted(monkeypatch)
