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
def headless_console() -> Iterator[None]:
    """Parse the console's style sheet once, and put its screen together only for pictures."""
    from ..support import headless, styling

    with pytest.MonkeyPatch.context() as patch:
        headless.parse_once(patch)
        styling.match_once(patch)
        headless.sketch(patch)
        headless.look_at_the_loop(patch)
        yield
