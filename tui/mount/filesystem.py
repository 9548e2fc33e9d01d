"""The callbacks of the file system, which FUSE calls.

Only errno goes back to a client. A client's open file is found by its file handle, not by its path:
a module that is unloaded takes paths away.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ...core.errors import (
    DynftraceError,
    FtraceBug,
    GuestInterrupted,
    HostMemoryError,
    MemoryFault,
    TracefsError,
    UsageError,
)
from ...core.tracefs.tree import Directory, File, Node
from . import libfuse
from .clients import Clients
from .open_file import OpenFile
from .runner import Runner

WAIT_S = 0.02
"""Interval at which a waiting reader looks for data, in host seconds."""

PROC = "/proc"
"""The directory with the machine's files of /proc; a client may bind them over the host's."""

SPLICED_SIZE = 1 << 50
"""Size of files for splice(2): more than is ever read."""

RELEASE_S = 0.01
"""Maximum time from the last close(2) of a file to its release, in host seconds."""


class TracefsOperations(libfuse.Operations):
    """The callbacks of FUSE, called from several threads. Errors are `OSError` with an errno."""

    use_ns = True

    def __init__(
        self,
        runner: Runner,
        more: Mapping[str, Node],
        ready: Callable[[], None] = lambda: None,
        clients: Clients | None = None,
    ) -> None:
        """`more` are files and directories beside those of tracefs; `ready` is called when mounted.

        `clients` gets the pid of each user of the files.
        """
        self._runner = runner
        self._clients = clients
        self._ready = ready
        self.mounted = False
        """Whether clients could ever use the file system."""
        self._more = more
        self._open: dict[int, OpenFile] = {}
        self._numbers = itertools.count(1)
        self._began = time.time_ns()
        self._owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        self._released = threading.Condition()
        self._closing: int | None = None
        """The file whose release may be pending."""
        self._polled: dict[int, int] = {}
        """Poll handles of clients that wait for a pipe, by file handle."""

    def init_with_config(self, connection: libfuse.fuse_conn_info, config: object) -> None:
        """Begin: the file system is mounted.

        splice(2) goes through the page cache, page by page, and a signal must interrupt it.
        """
        connection.want &= ~libfuse.ASYNC_READ
        connection.max_readahead = 0
        self.mounted = True
        self._runner.start()
        self._ready()

    # Names

    def getattr(self, path: str, fi: object = None) -> dict[str, int]:
        """Return the result of stat(2); sizes are 0, as in tracefs.

        splice(2) returns 0 at the end of a file, so a file that it reads has a size.
        """
        with self._turn():
            node = self._node(path)
        if isinstance(node, Directory):
            kind = {"st_mode": stat.S_IFDIR | node.mode, "st_nlink": 2}
        else:
            kind = {"st_mode": stat.S_IFREG | node.mode, "st_nlink": 1}
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._began)
        size = SPLICED_SIZE if isinstance(node, File) and node.in_pages else 0
        return {**kind, **self._owner, **times, "st_size": size}

    def readdir(self, path: str, fh: int) -> Sequence[tuple[str, dict[str, int], int]]:
        """Return the names in a directory, each with its type: some clients ask for no more."""
        with self._turn():
            node = self._node(path)
            if not isinstance(node, Directory):
                raise refused(errno.ENOTDIR)
            kinds = {name: isinstance(each, Directory) for name, each in node.entries.items()}
            if path == "/":
                more = {name: isinstance(each, Directory) for name, each in self._more.items()}
                kinds |= {**dict(sorted(more.items())), PROC[1:]: True}
            return [
                (name, {"st_mode": stat.S_IFDIR if is_directory else stat.S_IFREG}, 0)
                for name, is_directory in {".": True, "..": True, **kinds}.items()
            ]

    def _node(self, path: str) -> Node:
        tree = self._runner.session.boot.tracefs
        if path == PROC or path.startswith(f"{PROC}/"):
            return tree.node(path)  # the mount point of another tree
        name, slash, below = path[1:].partition("/")
        beside = self._more.get(name)
        if beside is None:
            return tree.node(path)
        if not slash:
            return beside
        found = beside.entries.get(below) if isinstance(beside, Directory) else None
        if found is None:
            raise refused(errno.ENOENT if isinstance(beside, Directory) else errno.ENOTDIR)
        return found

    def access(self, path: str, amode: int) -> int:
        """Allow everything, as root may. chdir(2) asks before it enters a directory."""
        if amode == os.X_OK and self._clients is not None:
            self._clients.enters(libfuse.client(), path)
        return 0

    def create(self, path: str, mode: int, fi: object) -> int:
        """Refuse, as tracefs does: clients make no files."""
        raise refused(errno.EACCES)

    def mkdir(self, path: str, mode: int) -> int:
        """Make a directory, where tracefs allows it."""
        with self._turn():
            self._runner.session.boot.tracefs.mkdir(path)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove a directory, where tracefs allows it."""
        with self._turn():
            self._runner.session.boot.tracefs.rmdir(path)
        return 0

    def unlink(self, *names: object) -> int:
        """Refuse, as tracefs does."""
        raise refused(errno.EPERM)

    rename = symlink = link = mknod = unlink

    def utimens(self, *times: object) -> int:
        """Accept the times of touch(1), and ignore them."""
        return 0

    chmod = chown = utimens

    # Files

    def open(self, path: str, fi: libfuse.fuse_file_info) -> int:
        """Open a file; `fi.flags` are those of open(2)."""
        write = fi.flags & os.O_ACCMODE != os.O_RDONLY
        with self._turn():
            node = self._node(path)
            if isinstance(node, Directory):
                raise refused(errno.EISDIR)
            opened = OpenFile(node, write=write, truncate=write and bool(fi.flags & os.O_TRUNC))
        fi.direct_io = 1
        fi.fh = next(self._numbers)
        self._open[fi.fh] = opened
        return 0

    def read(self, path: str, size: int, offset: int, fi: libfuse.fuse_file_info) -> bytes:
        """Read; a pipe without events waits for some, unless it was opened with O_NONBLOCK.

        splice(2) asks for one page after the other and returns at the first that fails, so it
        waits only briefly. read(2) has a lock owner; reads of the page cache have none.
        """
        opened = self._open[fi.fh]
        if opened.in_pages and not fi.lock_owner:
            return self._splice(opened, size)
        while True:
            with self._turn():
                data = opened.read(size, offset)
            if data is not None:
                return data
            if fi.flags & os.O_NONBLOCK:
                raise refused(errno.EAGAIN)
            if libfuse.interrupted():
                raise refused(errno.EINTR)
            time.sleep(WAIT_S)

    def _splice(self, opened: OpenFile, size: int) -> bytes:
        with self._turn():
            page = opened.splice(size)
        if page is None:
            time.sleep(WAIT_S)
            with self._turn():
                page = opened.splice(size)
        if page is None:
            raise refused(errno.EAGAIN)
        return page

    def write(self, path: str, data: bytes, offset: int, fi: libfuse.fuse_file_info) -> int:
        """Write, as one write(2)."""
        with self._turn():
            return self._open[fi.fh].write(data)

    def truncate(self, path: str, length: int, fi: libfuse.fuse_file_info | None = None) -> int:
        """Empty a file; another length has no effect."""
        if length == 0:
            with self._turn():
                node = self._node(path)
                if isinstance(node, File):
                    node.truncate()
        return 0

    def flush(self, path: str, fi: libfuse.fuse_file_info) -> int:
        """Note that a descriptor was closed, perhaps the last one: then `release` follows."""
        with self._turn():
            if self._open[fi.fh].written:
                self._closing = fi.fh
        return 0

    def release(self, path: str, fi: libfuse.fuse_file_info) -> int:
        """Close a file; errors are not reported."""
        with self._released:
            polled = self._polled.pop(fi.fh, None)
            if polled is not None:
                libfuse.forget(polled)
            with suppress(DynftraceError), self._runner.stopped():
                self._open.pop(fi.fh).close()
            if self._closing == fi.fh:
                self._closing = None
            self._released.notify_all()
        return 0

    def poll(
        self,
        path: str,
        fi: libfuse.fuse_file_info,
        handle: int | None,
        events: ctypes._Pointer[ctypes.c_uint],
    ) -> int:
        """Report whether a read would wait; notify the client of `handle` when it would not."""
        with self._turn():
            ready = self._open[fi.fh].readable
            old = self._polled.pop(fi.fh, None)
            if handle is not None:
                self._polled[fi.fh] = handle
        if old is not None:
            libfuse.forget(old)
        events[0] = select.POLLOUT | (select.POLLIN if ready else 0)
        return 0

    def notify(self) -> None:
        """Wake clients that poll a pipe which now has events; called while the machine rests."""
        if not self._polled:
            return
        with self._turn():
            ready = [number for number in self._polled if self._open[number].readable]
            handles = [self._polled.pop(number) for number in ready]
        for handle in handles:
            libfuse.wake(handle)
            libfuse.forget(handle)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Stop the machine within the context; its errors become `OSError`.

        close(2) does not wait until a file is released, but then its writes must be in effect.
        So the next request waits for the release, unless other descriptors of the file are open.
        """
        with self._released:
            if self._closing is not None:
                self._released.wait_for(lambda: self._closing is None, RELEASE_S)
                self._closing = None
        with self._runner.stopped():
            try:
                if self._clients is None:
                    yield
                else:
                    with self._clients.served(libfuse.client()):
                        yield
            except DynftraceError as error:
                raise refused(errno_of(error)) from error


def refused(number: int) -> OSError:
    """Return the error with the errno `number`."""
    return OSError(number, os.strerror(number))


def errno_of(error: DynftraceError) -> int:
    """Return the errno of a system call for `error`."""
    match error:
        case TracefsError() | FtraceBug():
            return error.errno
        case UsageError():
            return errno.EINVAL
        case MemoryFault():
            return errno.EFAULT
        case HostMemoryError():
            return errno.ENOMEM
        case GuestInterrupted():
            return errno.EINTR
        case _:
            return errno.EIO
