"""Mounts tracefs of a session, until it is unmounted or the program is asked to end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...core.errors import DynftraceError
from ...core.session.session import Session
from .clients import Clients
from .ctl import Ctl
from .runner import Pace, Runner
from .tools import DIRECTORY, tools

DEVICE = "/dev/fuse"

INSTALL = "install fuse3 (Debian, Fedora, Alpine), or macFUSE on macOS"


def check_directory(directory: Path) -> None:
    """Raise `DynftraceError` unless tracefs can be mounted on `directory`."""
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise DynftraceError(f"{directory}: {error.strerror}") from error
    if os.path.ismount(directory):
        raise DynftraceError(f"{directory}: something is mounted there already")
    if names:
        raise DynftraceError(f"{directory}: directory not empty")
    if not os.path.exists(DEVICE):
        raise DynftraceError(f"this system has no {DEVICE}: {INSTALL}")


def mount(
    session: Session,
    directory: Path,
    pace: Pace,
    ready: Callable[[], None],
    warn: Callable[[str], None],
) -> None:
    """Mount tracefs on `directory` and let the machine run; return when it is unmounted.

    Calls `ready` once clients can use it, and `warn` with the reason if the machine stops
    running. Signals that end a program unmount it. Only this user has access. Raises
    `DynftraceError` if FUSE is missing or refuses.
    """
    try:
        from . import libfuse
    except ModuleNotFoundError as error:
        raise DynftraceError(
            "mount needs the package mfusepy: pip install 'dynftrace[mount]'"
        ) from error
    except OSError as error:
        raise DynftraceError(f"mount needs libfuse 3: {INSTALL}") from error
    from .filesystem import TracefsOperations

    runner = Runner(session, pace)
    clients = None if pace is Pace.CTL else Clients(session)
    operations = TracefsOperations(
        runner, {"ctl": Ctl(session), DIRECTORY: tools()}, ready, clients
    )
    if clients is not None:
        runner.before = clients.repeat
    runner.after = operations.notify
    runner.stopped_running = lambda reason: warn(f"the machine has stopped: {reason}")
    try:
        libfuse.FUSE(
            operations,
            str(directory),
            raw_fi=True,
            foreground=True,
            attr_timeout=0,
            entry_timeout=0,
            negative_timeout=0,
            fsname="tracefs",
            subtype="tracefs",
            **libfuse.THREADS,
        )
    except RuntimeError as error:
        # FUSE also raises this when a signal ends it.
        if not operations.mounted:
            raise DynftraceError(f"{directory}: FUSE could not mount tracefs") from error
    finally:
        runner.end()
        if clients is not None:
            clients.close()
