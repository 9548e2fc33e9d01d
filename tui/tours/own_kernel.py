"""The reader's own kernel, for lessons with `own = true`."""

from __future__ import annotations

import os
from pathlib import Path

from ... import arches
from ...core.session.session import BUNDLED_ONLY

BOOT = Path("/boot")
"""Where distributions install kernels."""


def find() -> tuple[str, Path] | None:
    """Return port and path of the running kernel's file, or of the newest one beside it.

    None if none can be read, if there is no port for it, and for visitors of `dynftrace serve`.
    """
    if os.environ.get(BUNDLED_ONLY):
        return None
    running = BOOT / f"vmlinuz-{os.uname().release}"
    others = [path for path in BOOT.glob("vmlinu[xz]-*") if path != running]
    newest_first = sorted(others, key=lambda path: (-_time(path), path.name))
    for path in (running, *newest_first):
        if path.is_file() and os.access(path, os.R_OK):
            ports = [name for name in arches.of_file(str(path)) if name in arches.built_in()]
            if ports:
                return ports[0], path
    return None


def _time(path: Path) -> float:
    """Return when `path` was changed, in seconds; 0 if that is unknown."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
