"""Saving the session of a console, and restoring it by replaying its journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.errors import GuestInterrupted
from ...core.session.journal import redo
from ..files.status_line import PATIENCE_S, how_far
from . import session_file
from .machine_options import MachineOptions
from .session_model import Layout, Saved

if TYPE_CHECKING:
    from ...core.session.session import Session


class SessionStore:
    """The session `name`, saved under that name: restored from `saved`, or new on `machine`.

    Call `open` and `save` in the machine's thread, or after that thread has ended.
    """

    def __init__(
        self,
        name: str,
        machine: MachineOptions,
        saved: Saved | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._clock = clock
        self.progress = ""
        """Progress of a long `open`, or ""; may be read from any thread."""
        self._machine = machine if saved is None else saved.machine
        self._saved = saved
        self._session: Session | None = None
        self._stopped = False
        self._opened = False
        self.differs = ""
        """One sentence on how the restored machine differs from the saved one, or ""."""

    @property
    def layout(self) -> Layout | None:
        """The saved layout of the console; None for a new session."""
        return None if self._saved is None else self._saved.layout

    def open(self) -> Session:
        """Open the machine and replay the journal.

        Raises what `Session.open` raises, and `GuestInterrupted` after `stop`.
        """
        from ...core.shell.shell import Shell

        what = f"restoring session {self.name}"
        self._session = session = self._machine()
        saved = self._saved
        if saved is not None:
            shell, begin = Shell(session), self._clock()
            for number, action in enumerate(saved.done):
                if self._stopped:
                    raise GuestInterrupted(what)
                passed = self._clock() - begin
                if number and passed >= PATIENCE_S:
                    self.progress = how_far(what, number, len(saved.done), passed)
                redo(session, (action,), shell.repeat, what)
            self.progress = ""
            if saved.now not in (None, session.now):
                self.differs = (
                    f"replay ended at {session.now:,} ns instead of {saved.now:,} ns: "
                    "the kernel or a module has changed"
                )
        self._opened = True
        return session

    def stop(self) -> None:
        """End `open` soon; may be called from any thread."""
        self._stopped = True
        if self._session is not None:
            self._session.stop()

    def save(self, layout: Layout) -> str:
        """Write the session; return a sentence about the parts that could not be saved, or "".

        If `open` has not finished, the file stays as it is. Raises `DynftraceError`.
        """
        session = self._session
        if session is None or not self._opened:
            return ""
        journal = session.journal
        whole = tuple(journal.whole)
        now = None if journal.interrupted else session.now
        session_file.save(self.name, Saved(self._machine, whole, now, layout))
        lost = [each for each in journal.actions[len(whole) :] if not isinstance(each, int)]
        if not lost:
            return ""
        more = f" and {len(lost) - 1} more after it" if len(lost) > 1 else ""
        return (
            f"session {self.name} saved without `{lost[0]}`{more}: "
            "an interrupted command cannot be replayed"
        )
