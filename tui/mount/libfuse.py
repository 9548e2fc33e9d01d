"""mfusepy with libfuse 3, and the functions of libfuse that it does not offer.

Importing this raises `ModuleNotFoundError` without mfusepy, and `OSError` without libfuse 3.
"""

from __future__ import annotations

import ctypes
import os
from ctypes.util import find_library
from typing import Any

NAME = "fuse3"

# By itself, mfusepy prefers version 2, which has no atomic O_TRUNC.
os.environ.setdefault("FUSE_LIBRARY_NAME", NAME)

from mfusepy import FUSE, Operations, fuse_conn_info, fuse_file_info  # noqa: E402

__all__ = [
    "ASYNC_READ",
    "FUSE",
    "THREADS",
    "Operations",
    "client",
    "forget",
    "fuse_conn_info",
    "fuse_file_info",
    "interrupted",
    "wake",
]

_library = ctypes.CDLL(find_library(os.environ["FUSE_LIBRARY_NAME"]))
_library.fuse_notify_poll.argtypes = _library.fuse_pollhandle_destroy.argtypes = [ctypes.c_void_p]
_library.fuse_pollhandle_destroy.restype = None
_library.fuse_get_session.argtypes = _library.fuse_session_exited.argtypes = [ctypes.c_void_p]
_library.fuse_get_session.restype = ctypes.c_void_p

THREADS: dict[str, Any] = (
    {"max_threads": 64, "max_idle_threads": 8} if _library.fuse_version() >= 312 else {}
)
"""Options of FUSE. Each reader that waits occupies a thread. libfuse 3.12 to 3.14 print a warning
about their own defaults, and older versions do not know the options."""


ASYNC_READ = 1
"""FUSE_CAP_ASYNC_READ: a reader of the page cache cannot be interrupted."""


class _Context(ctypes.Structure):
    """The start of struct fuse_context."""

    _fields_ = (
        ("fuse", ctypes.c_void_p),
        ("uid", ctypes.c_uint),
        ("gid", ctypes.c_uint),
        ("pid", ctypes.c_int),
    )


_library.fuse_get_context.restype = ctypes.POINTER(_Context)


def client() -> int:
    """Return the pid of the process that made the current request; 0 outside of requests."""
    context = _library.fuse_get_context()
    return int(context[0].pid) if context else 0


def interrupted() -> bool:
    """Return whether the client of the current request was interrupted or killed, or must end."""
    here = _library.fuse_get_context()[0].fuse
    return bool(
        _library.fuse_interrupted() or _library.fuse_session_exited(_library.fuse_get_session(here))
    )


def wake(handle: int) -> None:
    """Notify a polling client that data is available."""
    _library.fuse_notify_poll(handle)


def forget(handle: int) -> None:
    """Free a poll handle."""
    _library.fuse_pollhandle_destroy(handle)
