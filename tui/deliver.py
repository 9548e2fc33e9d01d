"""Files for who sits at the console: in the working directory, or as a browser's download."""

from __future__ import annotations

import io
from pathlib import Path

from textual.app import App

STEM = "dynftrace"


def free_path(folder: Path, suffix: str) -> Path:
    """dynftrace-N`suffix` in `folder`, N the first that is free."""
    number = 1
    while (path := folder / f"{STEM}-{number}{suffix}").exists():
        number += 1
    return path


def download(app: App[None], text: str, suffix: str, mime_type: str) -> None:
    """Hand `text` to the browser that shows `app`, which saves it as it saves files."""
    app.deliver_text(io.StringIO(text), save_filename=f"{STEM}{suffix}", mime_type=mime_type)
