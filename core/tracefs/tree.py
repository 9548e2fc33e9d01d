"""Files and directories with the errors of the kernel's system calls.

A file is opened, read or written any number of times, and closed. Some files act only when
they are closed: the words written to set_ftrace_filter take effect together, so that no
site is patched twice. `Tracefs.read` and `.write` open, access and close a file, as `cat`
and `echo` do.

The errors are those that root gets from the kernel: a file that cannot be read or written
can be opened, but the access fails with EINVAL. A missing name is ENOENT, a directory
EISDIR, a path through a file ENOTDIR.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Self

from ..errors import TracefsError

MOUNT_POINTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
"""Mount points on a real machine; paths may begin with one of them."""


class Handle:
    """An open file, for a `with` statement; closing may raise errors."""

    acts = False
    """Whether closing it has an effect even if nothing was written."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._owner = file.owner
        if self._owner is not None:
            self._owner.opened += 1

    def read(self) -> str:
        """Return the current content."""
        return self._file.read()

    def write(self, text: str) -> None:
        """Write `text` as one write(2)."""
        self._file.write(text)

    def close(self) -> None:
        """Close the file, once; files that act on closing do more."""
        if self._owner is not None:
            self._owner.opened -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Owner:
    """Something that cannot be removed while files of it are open."""

    opened = 0
    """Number of open handles."""


class File:
    """A file; subclasses define reading, writing and emptying.

    `mode` has the permission bits for listings; root may open every file.
    """

    mode = 0o444

    consumes = False
    """Whether reading consumes the content, so that a second read finds less."""

    in_pages = False
    """Whether a read returns a page of the ring buffer, which splice(2) can move."""

    @property
    def whole_page(self) -> bool:
        """Whether the next page is complete, if it has pages."""
        return False

    @property
    def ready(self) -> bool:
        """Whether there is content; a reader of a file that `consumes` waits for it."""
        return True

    owner: Owner | None = None
    """The removable object that the file belongs to, if any."""

    def own(self, owner: Owner | None) -> None:
        """Make `owner` the owner of the file."""
        self.owner = owner

    def ended(self, read_before: bool) -> bool:
        """Whether a reader that finds nothing is at the end, instead of having to wait.

        `read_before` says whether the reader has read something since it opened the file.
        """
        return True

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file; `truncate` empties it first."""
        if truncate:
            self.truncate()
        return Handle(self)

    def read(self) -> str:
        """Return the current content; EINVAL for a file that can only be written."""
        raise TracefsError(errno.EINVAL)

    def write(self, text: str) -> None:
        """Accept `text`; EINVAL for a file that can only be read."""
        raise TracefsError(errno.EINVAL)

    def truncate(self) -> None:
        """Empty the file; for most files this has no effect."""


class FixedFile(File):
    """A file whose content never changes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self) -> str:
        """Return the text."""
        return self._text


class Directory:
    """Named files and directories."""

    mode = 0o755

    def __init__(self, entries: Mapping[str, Node]) -> None:
        self._entries = MappingProxyType(dict(sorted(entries.items())))

    owner: Owner | None = None
    """The removable object that its files belong to, if any, including files made on reading."""

    def own(self, owner: Owner | None) -> None:
        """Make `owner` the owner of all files below."""
        self.owner = owner
        for node in self._entries.values():
            node.own(owner)

    @property
    def entries(self) -> Mapping[str, Node]:
        """The current content by name, sorted."""
        return self._entries

    def mkdir(self, name: str) -> None:
        """Make the directory `name` in this one; EPERM unless the kernel provides for it."""
        raise TracefsError(errno.EPERM)

    def rmdir(self, name: str) -> None:
        """Remove the directory `name` of this one; EPERM unless the kernel provides for it."""
        raise TracefsError(errno.EPERM)


Node = File | Directory


class Tracefs:
    """The tree, by path. Each call holds `lock`, as the machine does while it runs."""

    def __init__(
        self,
        root: Directory,
        lock: threading.RLock,
        beside: Mapping[str, Directory] = MappingProxyType({}),
    ) -> None:
        """`beside` has the trees at other mount points (/proc), by path."""
        self.root = root
        self.beside = beside
        self._lock = lock

    @property
    def mount_points(self) -> tuple[str, ...]:
        """All mount points of this tree and of the others."""
        return (*MOUNT_POINTS, *self.beside)

    def node(self, path: str) -> Node:
        """Return the node at `path`. Raises `TracefsError` (ENOENT, ENOTDIR)."""
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
        """Split `path` into its mount point (empty for a relative path) and the rest."""
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
        """Open a file. Raises `TracefsError` (ENOENT, ENOTDIR, EISDIR, and the file's own)."""
        node = self.node(path)
        if isinstance(node, Directory):
            raise TracefsError(errno.EISDIR)
        with self._lock:
            return node.open(write=write, truncate=truncate)

    def read(self, path: str) -> str:
        """Return the whole file, as `cat` shows it."""
        with self._lock, self.open(path) as handle:
            return handle.read()

    def write(self, path: str, text: str, append: bool = False) -> None:
        """Write `text` as `echo` does; empty the file first unless `append`."""
        with self._lock, self.open(path, write=True, truncate=not append) as handle:
            handle.write(text)

    def listdir(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted. Raises `TracefsError` (ENOENT, ENOTDIR)."""
        node = self.node(path)
        if not isinstance(node, Directory):
            raise TracefsError(errno.ENOTDIR)
        return list(node.entries)

    def mkdir(self, path: str) -> None:
        """Make a directory. Raises `TracefsError` (EEXIST, ENOENT, ENOTDIR, and its parent's)."""
        with self._lock:
            if self.exists(path):
                raise TracefsError(errno.EEXIST)
            parent, name = self._parent(path)
            parent.mkdir(name)

    def rmdir(self, path: str) -> None:
        """Remove a directory. Raises `TracefsError` (ENOENT, ENOTDIR, and its parent's)."""
        with self._lock:
            if not isinstance(self.node(path), Directory):
                raise TracefsError(errno.ENOTDIR)
            parent, name = self._parent(path)
            parent.rmdir(name)

    def _parent(self, path: str) -> tuple[Directory, str]:
        """Return the directory that `path` is in, and its name. Raises `TracefsError`."""
        above, _, name = self.canonical(path).rstrip("/").rpartition("/")
        parent = self.node(above)
        if not isinstance(parent, Directory):
            raise TracefsError(errno.ENOTDIR)
        return parent, name

    def exists(self, path: str) -> bool:
        """Return whether `path` exists."""
        try:
            self.node(path)
        except TracefsError:
            return False
        return True

    def is_dir(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return self.exists(path) and isinstance(self.node(path), Directory)


def _names(path: str) -> Iterable[str]:
    """Return the names from the root to `path`."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names
