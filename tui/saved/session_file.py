"""The files of saved sessions: listing, loading, saving and deleting them by name."""

from __future__ import annotations

import re
from pathlib import Path

from platformdirs import user_state_path

from ...core.errors import DynftraceError, UsageError
from ..files.whole_file import write_whole
from .session_model import Saved
from .session_text import SessionTextError, as_text, from_text

SUFFIX = ".json"

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


class SessionFileError(DynftraceError):
    """An unusable session file: its path and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


def folder() -> Path:
    """Return the folder of the session files."""
    return user_state_path("dynftrace") / "sessions"


def path_of(name: str) -> Path:
    """Return the path of the session `name`. Raises `UsageError` for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"invalid session name {name!r}: use at most 64 letters, digits, '.', '_' and '-'"
        )
    return folder() / (name + SUFFIX)


def names() -> list[str]:
    """Return the names of all saved sessions, sorted."""
    try:
        found = [each.name.removesuffix(SUFFIX) for each in folder().glob(f"*{SUFFIX}")]
    except OSError:
        return []
    return sorted(name for name in found if _NAME.fullmatch(name))


def delete(name: str) -> None:
    """Delete the session `name`. Raises `UsageError` if it does not exist."""
    path = path_of(name)
    try:
        path.unlink()
    except FileNotFoundError:
        raise UsageError(f"session {name!r} does not exist: dynftrace sessions lists all") from None
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error


def save(name: str, saved: Saved) -> None:
    """Write or replace the file of the session `name`.

    Raises `UsageError` for an invalid name and `DynftraceError` if writing fails.
    """
    path = path_of(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error
    write_whole(path, as_text(saved))


def load(name: str) -> Saved | None:
    """Return the session `name`, or None if it does not exist.

    Raises `UsageError` for an invalid name and `SessionFileError` for an unusable file.
    """
    path = path_of(name)
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise SessionFileError(path, "not UTF-8") from error
    try:
        return from_text(text)
    except SessionTextError as error:
        raise SessionFileError(path, str(error)) from error
