"""What the program may write to a stream."""

from __future__ import annotations

import os
from typing import IO

DUMB = "dumb"
"""The TERM of a terminal that only prints text, such as the shell of an editor."""


def can_move_cursor(stream: IO[str]) -> bool:
    """Return whether `stream` is a terminal that obeys escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != DUMB
