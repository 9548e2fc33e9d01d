"""Files and directories with the errors of the kernel's system calls.

A file is opened, read or written some times, and closed, because some files
act only then: the words written to set_ftrace_filter are taken together when it
is closed, so that no site is patched twice. `Tracefs.read` and `.write` do the
whole round for one text, as `cat` and `echo` do.

What is refused follows what root gets from the kernel: a file with no way to
read or write opens and then says EINVAL; a name that is not there is ENOENT, a
directory EISDIR, a path through a file ENOTDIR.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Self

from ..errors import TracefsError

MOUNT_POINTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
"""Where the tree is on a real machine; paths may begin with one of them."""


class Handle:
    """An open file. Use it in a `with` statement; errors of the close pass through."""

    def __init__(self, file: File) -> None:
        self._file = file

    def read(self) -> str:
        """All there is to read now."""
        return self._file.read()

    def write(self, text: str) -> None:
        """One write(2) of `text`."""
        self._file.write(text)

    def close(self) -> None:
        """Let go of the file; what it does then happens here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class File:
    """A file; each kind says what reading, writing and emptying it do.

    `mode` are its permission bits, for listings: root may open it all the same.
    """

    mode = 0o444

    consumes = False
    """Whether reading it takes something away, so that a second read finds less."""

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open it; `truncate` empties it first, where that means something."""
        if truncate:
            self.truncate()
        return Handle(self)

    def read(self) -> str:
        """The content now; EINVAL where a file can only be written."""
        raise TracefsError(errno.EINVAL)

    def write(self, text: str) -> None:
        """Take `text`; EINVAL where a file can only be read."""
        raise TracefsError(errno.EINVAL)

    def truncate(self) -> None:
        """Empty it; most files have nothing to empty."""


class Directory:
    """Named files and directories."""

    mode = 0o755

    def __init__(self, entries: Mapping[str, Node]) -> None:
        self._entries = MappingProxyType(dict(sorted(entries.items())))

    @property
    def entries(self) -> Mapping[str, Node]:
        """What is in it now, by name, sorted."""
        return self._entries


Node = File | Directory


class Tracefs:
    """The tree, by path. `lock` is held in each call; the machine's runs hold it too."""

    def __init__(
        self,
        root: Directory,
        lock: threading.RLock,
        beside: Mapping[str, Directory] = MappingProxyType({}),
    ) -> None:
        """`beside` are trees of other places, such as /proc, by their paths."""
        self.root = root
        self.beside = beside
        self._lock = lock

    @property
    def mount_points(self) -> tuple[str, ...]:
        """Paths that begin another tree than the names in this one do."""
        return (*MOUNT_POINTS, *self.beside)

    def node(self, path: str) -> Node:
        """What is at `path`; raises `TracefsError` (ENOENT, ENOTDIR)."""
        mount, rest = self._mount(path)
        here: Node = self.beside.get(mount, self.root)
        for name in _names(rest):
            if not isinstance(here, Directory):
                raise TracefsError(errno.ENOTDIR)
            try:
                here = here.entries[name]
            except KeyError:
                raise TracefsError(errno.ENOENT) from None
        return here

    def _mount(self, path: str) -> tuple[str, str]:
        """Where the tree is that `path` leads into, empty for this one, and the rest of it."""
        for mount in self.mount_points:
            if path == mount or path.startswith(mount + "/"):
                return mount, path[len(mount) :]
        return "", path

    def canonical(self, path: str) -> str:
        """Return the one spelling of `path`: without this tree's mount point, `.` and `..`."""
        mount, rest = self._mount(path)
        below = "/".join(_names(rest))
        return f"{mount}/{below}" if mount in self.beside else below

    def open(self, path: str, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open a file; raises `TracefsError` (ENOENT, ENOTDIR, EISDIR, and the file's own)."""
        node = self.node(path)
        if isinstance(node, Directory):
            raise TracefsError(errno.EISDIR)
        with self._lock:
            return node.open(write=write, truncate=truncate)

    def read(self, path: str) -> str:
        """The whole file, as `cat` shows it."""
        with self._lock, self.open(path) as handle:
            return handle.read()

    def write(self, path: str, text: str, append: bool = False) -> None:
        """Write `text` as `echo` does: emptying the file first unless `append`."""
        with self._lock, self.open(path, write=True, truncate=not append) as handle:
            handle.write(text)

    def listdir(self, path: str = "") -> list[str]:
        """The names in a directory, sorted; raises `TracefsError` (ENOENT, ENOTDIR)."""
        node = self.node(path)
        if not isinstance(node, Directory):
            raise TracefsError(errno.ENOTDIR)
        return list(node.entries)

    def exists(self, path: str) -> bool:
        """Whether there is something at `path`."""
        try:
            self.node(path)
        except TracefsError:
            return False
        return True

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory."""
        return self.exists(path) and isinstance(self.node(path), Directory)


def _names(path: str) -> Iterable[str]:
    """The names on the way from the root to `path`."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names
