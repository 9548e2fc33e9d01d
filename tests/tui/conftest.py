"""An environment in which pictures come out equal everywhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours and themes of the caller's terminal stay outside."""
    for name in list(os.environ):
        if name == "NO_COLOR" or name.startswith("TEXTUAL_"):
            monkeypatch.delenv(name)
