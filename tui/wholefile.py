"""Files are replaced whole: a reader sees the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import DynftraceError


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` beside and rename it; raises `DynftraceError`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise DynftraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
