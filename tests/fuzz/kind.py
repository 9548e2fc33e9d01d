"""What a kind of input is: how a case is made, and how dynftrace takes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Protocol

from dynftrace.core.machine import scheduler
from dynftrace.core.session.session import Session

GUEST_NS = 60_000_000
"""Limit for a boot, a workload or a call of damaged code, in virtual ns; a boot takes 11 ms."""

PATIENCE = 2.0
"""Host seconds after which a case presses ctrl+c, as a user would."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input: the file that reproduces it, and the words for it."""

    content: bytes
    about: str = ""
    """What was damaged, as arguments of dynftrace where it has any."""


class Kind(Protocol):
    """A kind of input."""

    name: str
    suffix: str
    """Suffix of a reproducer's file name."""

    def case(self, random: Random) -> Case:
        """Return a case; equal `random`, equal case."""
        ...

    def take(self, case: Case) -> str:
        """Give the case to dynftrace and return what became of it, in a word or two.

        Raises `DynftraceError` if dynftrace refuses it. Any other exception is a failure.
        """
        ...


class Wrong(Exception):
    """What dynftrace did with a case is wrong, though it raised nothing."""


def folder() -> Path:
    """Return the folder for the files of cases: the working directory of their process."""
    return Path.cwd()


def written(name: str, content: bytes) -> Path:
    """Write the file of a case and return its path."""
    path = folder() / name
    path.write_bytes(content)
    return path


def limit_runs() -> None:
    """Let no run of a guest last longer than `GUEST_NS`, whatever its caller allows."""
    run_until = scheduler.Scheduler.run_until

    def bounded(self: scheduler.Scheduler, done: object, limit_ns: int, what: str) -> None:
        run_until(self, done, min(limit_ns, GUEST_NS), what)  # type: ignore[arg-type]

    scheduler.Scheduler.run_until = bounded  # type: ignore[method-assign,assignment]


class _Impatient:
    """A thread that stops a session's runs once they have lasted `PATIENCE`."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.since = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(0.1)
            session = self.session
            if session is not None and time.monotonic() - self.since > PATIENCE:
                session.stop()


@cache
def _impatient() -> _Impatient:
    return _Impatient()


@contextmanager
def impatient(session: Session) -> Iterator[None]:
    """Press ctrl+c again and again while the context lasts longer than `PATIENCE`."""
    watch = _impatient()
    watch.since, watch.session = time.monotonic(), session
    try:
        yield
    finally:
        watch.session = None
