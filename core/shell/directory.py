"""The shell's current directory in the tree."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from ..errors import TracefsError
from ..tracefs.tree import MOUNT_POINTS, Directory, Tracefs

MOUNTED = MOUNT_POINTS[0]
"""Mount point of the root of tracefs, as `pwd` shows it."""


@dataclass(slots=True)
class WorkingDirectory:
    """The directory at which relative paths begin. A shell starts at the root of tracefs."""

    path: str = ""
    """Its canonical path: relative to the root of tracefs, or from another mount point."""
    previous: str | None = None
    """The directory before the last `change`."""

    def absolute(self, path: str) -> str:
        """Return `path` as the tree expects it; "" is the directory itself."""
        if path.startswith("/") or not self.path:
            return path
        return f"{self.path}/{path}" if path else self.path

    def change(self, tree: Tracefs, path: str) -> None:
        """Go to the directory `path`. Raises `TracefsError` (ENOENT, ENOTDIR)."""
        wanted = self.absolute(path)
        if not isinstance(tree.node(wanted), Directory):
            raise TracefsError(errno.ENOTDIR)
        self.path, self.previous = tree.canonical(wanted).rstrip("/"), self.path

    def __str__(self) -> str:
        """The whole path, as `pwd` shows it."""
        if self.path.startswith("/"):
            return self.path
        return f"{MOUNTED}/{self.path}" if self.path else MOUNTED
