"""Atomic file replacement: a reader sees the old file or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...core.errors import DynftraceError


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
