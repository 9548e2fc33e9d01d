"""Runs the machine while its files are mounted.

The machine's thread and those of FUSE take turns: a client waits at most for one chunk of the
machine, however fast that runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from ...core.errors import DynftraceError, GuestError
from ...core.session.session import Session

CHUNK_NS = 1_000_000
"""Virtual ns that the machine runs before clients get their turn."""

BEHIND_S = 0.1
"""Maximum delay, in host seconds, that the machine makes up for; a longer one is dropped."""


class Pace(Enum):
    """How the machine's time passes."""

    REAL = "real"
    """As on the wall clock."""
    FULL = "full"
    """As fast as the host can."""
    CTL = "ctl"
    """Only within the commands that a client writes to `ctl`."""


class Runner:
    """The thread in which the machine runs."""

    def __init__(self, session: Session, pace: Pace) -> None:
        self.session = session
        self._pace = pace
        self._turn = threading.Condition()
        self._clients = 0
        self._ended = False
        self._thread = threading.Thread(target=self._loop, name="machine", daemon=True)
        self.stopped_running: Callable[[str], None] = lambda reason: None
        """Called, with the reason, if the machine cannot run any more; its files stay."""
        self.before: Callable[[], None] = lambda: None
        """Called before each stretch, while clients wait."""
        self.after: Callable[[], None] = lambda: None
        """Called after each stretch that the machine ran."""

    def start(self) -> None:
        """Let the machine run."""
        if self._pace is not Pace.CTL:
            self._thread.start()

    def end(self) -> None:
        """Stop the machine and wait for its thread."""
        with self._turn:
            self._ended = True
            self._turn.notify_all()
        self.session.stop()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def stopped(self) -> Iterator[Session]:
        """Within the context, the machine does not run, and other clients wait."""
        with self._turn:
            self._clients += 1
        try:
            with self.session.lock:
                yield self.session
        finally:
            with self._turn:
                self._clients -= 1
                self._turn.notify_all()

    def _loop(self) -> None:
        began, first = time.monotonic(), self.session.now
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._ended or not self._clients)
                if self._ended:
                    return
            if not self._run():
                return
            self.after()
            if self._pace is Pace.FULL:
                continue
            ahead = (self.session.now - first) / 1e9 - (time.monotonic() - began)
            if ahead < -BEHIND_S:
                began, first = time.monotonic(), self.session.now
            elif ahead > 0:
                with self._turn:
                    self._turn.wait_for(lambda: self._ended, ahead)

    def _run(self) -> bool:
        """Run one chunk; return False if the machine cannot run any more."""
        boot = self.session.boot
        try:
            with self.session.lock:
                if not boot.machine.alive:
                    raise GuestError(boot.machine.scheduler.standstill)
                self.before()
                if not boot.ftrace.patcher.held:
                    # Not `session.run`: clients' writes are not in the journal, so there is no
                    # history.
                    boot.machine.run(CHUNK_NS)
        except DynftraceError as error:
            self.stopped_running(str(error))
            return False
        return True
