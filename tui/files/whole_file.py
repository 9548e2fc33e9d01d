"""Writing files atomically, so that a reader sees the old or the new text, and unused names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...core.errors import DynftraceError

STEM = "dynftrace"
"""Start of the names of files that the console saves."""


def free_path(folder: Path, suffix: str) -> Path:
    """Return the path dynftrace-N`suffix` in `folder`, with the first unused N."""
    number = 1
    while (path := folder / f"{STEM}-{number}{suffix}").exists():
        number += 1
    return path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Write `text`, or its pieces, to a temporary file and rename it to `path`.

    Raises `DynftraceError` if that fails.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.writelines((text,) if isinstance(text, str) else text)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise DynftraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
