"""Writing files atomically, so that a reader sees the old or the new text; unused names."""

from __future__ import annotations

import os
import stat
import threading
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


def write_whole(path: Path, text: str | bytes | Iterable[str]) -> None:
    """Write `text`, or its pieces, or bytes, to `path`, whose reader sees the old or the new text.

    A regular file is replaced by a rename and keeps its mode; a symbolic link keeps pointing to
    it. Anything else, such as a FIFO or a device, is written to.

    Raises `DynftraceError` if that fails.
    """
    try:
        if isinstance(text, bytes):
            data = text
        else:
            data = (text if isinstance(text, str) else "".join(text)).encode()
        status = _status(path)
        if status is None or stat.S_ISREG(status.st_mode):
            _replace(Path(os.path.realpath(path)), data, status)
        else:
            with path.open("wb") as file:
                file.write(data)
    except (OSError, ValueError) as error:
        raise DynftraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the file that `path` leads to, or None if it does not exist."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _replace(path: Path, data: bytes, old: os.stat_result | None) -> None:
    """Write `data` to a temporary file and rename it to `path`; `old` is the file's status."""
    # Not the file's own name with an ending: that may be too long.
    beside = path.with_name(f".{STEM}.{os.getpid()}.{threading.get_ident()}")
    try:
        with beside.open("xb") as file:
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.write(data)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
