"""Keeps one session of the console: does again what was done, and writes what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import GuestInterrupted
from ..core.journal import redo
from . import sessions
from .machine import Described
from .sessions import Layout, Saved

if TYPE_CHECKING:
    from ..core.session import Session


class Keeper:
    """The session `name` on the machine `described`, as it was `saved` or anew.

    `open` and `save` are for the machine's thread, or for after its end.
    """

    def __init__(self, name: str, described: Described, saved: Saved | None = None) -> None:
        self.name = name
        self._described = described if saved is None else saved.machine
        self._saved = saved
        self._session: Session | None = None
        self._stopped = False
        self._opened = False
        self.differs = ""
        """In how far the machine is not what was saved, or nothing."""

    @property
    def layout(self) -> Layout | None:
        """How the console is to lie, None for a fresh session."""
        return None if self._saved is None else self._saved.layout

    def open(self) -> Session:
        """Open the machine and do again what was done.

        Raises as `Session.open`, and `GuestInterrupted` on `stop`.
        """
        from ..core.shell.shell import Shell

        what = f"restoring session {self.name}"
        self._session = session = self._described()
        saved = self._saved
        if saved is not None:
            shell = Shell(session)
            for action in saved.done:
                if self._stopped:
                    raise GuestInterrupted(what)
                redo(session, (action,), shell.repeat, what)
            if saved.now not in (None, session.now):
                self.differs = (
                    f"done again, the same commands took until {session.now:,} ns "
                    f"instead of {saved.now:,} ns: kernel or modules are others"
                )
        self._opened = True
        return session

    def stop(self) -> None:
        """From any thread: end `open` soon."""
        self._stopped = True
        if self._session is not None:
            self._session.stop()

    def save(self, layout: Layout) -> str:
        """Write the session; returns a sentence about what could not be kept, or nothing.

        A session that was not opened to its end stays as it was. Raises `DynftraceError`.
        """
        session = self._session
        if session is None or not self._opened:
            return ""
        journal = session.journal
        whole = tuple(journal.whole)
        now = None if journal.interrupted else session.now
        sessions.save(self.name, Saved(self._described, whole, now, layout))
        lost = [each for each in journal.actions[len(whole) :] if not isinstance(each, int)]
        if not lost:
            return ""
        behind = f", and {len(lost) - 1} more behind it" if len(lost) > 1 else ""
        return (
            f"session {self.name} is kept without `{lost[0]}`{behind}: "
            "what was interrupted cannot be done again"
        )
