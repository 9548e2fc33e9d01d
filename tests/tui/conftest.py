"""An environment in which pictures come out equal everywhere."""

from __future__ import annotations

import os

import pytest

# Textual reads its variables when it is imported, which is after this.
for _name in list(os.environ):
    _own = _name.startswith("TEXTUAL_") and _name != "TEXTUAL_SNAPSHOT_TEMPDIR"
    if _own or _name == "NO_COLOR":
        del os.environ[_name]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for all tests; but the snapshot plugin needs its own variable."""
    monkeypatch.delenv("NO_COLOR", raising=False)
