"""Files for the user of the console: in the working directory, or as a browser download."""

from __future__ import annotations

import io
from pathlib import Path

from textual.app import App

STEM = "dynftrace"


def free_path(folder: Path, suffix: str) -> Path:
    """Return the path dynftrace-N`suffix` in `folder`, with the first unused N."""
    number = 1
    while (path := folder / f"{STEM}-{number}{suffix}").exists():
        number += 1
    return path


def download(app: App[None], text: str, suffix: str, mime_type: str) -> None:
    """Send `text` to the browser that shows `app`, as a download."""
    app.deliver_text(io.StringIO(text), save_filename=f"{STEM}{suffix}", mime_type=mime_type)
