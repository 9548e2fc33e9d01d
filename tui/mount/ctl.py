"""`ctl`: a file that takes commands of the tracefs shell, and shows the last one's output."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ...core.errors import DynftraceError, TracefsError
from ...core.session.session import Session
from ...core.shell.command import Command, Context
from ...core.shell.shell import Shell
from ...core.shell.words import Word
from ...core.tracefs.tree import File, Handle

NO_HISTORY = ("back", "redo", "goto")
"""Commands that replay, refused here: clients' writes to the files are not recorded."""


def _refuse(context: Context, words: Sequence[Word]) -> None:
    raise DynftraceError("a mounted machine has no history")


class Ctl(File):
    """Writing executes commands; reading returns the output and errors of the last ones."""

    mode = 0o600

    def __init__(self, session: Session) -> None:
        refused = [Command(name, "", "not in a mounted machine", _refuse) for name in NO_HISTORY]
        self._shell = Shell(session, more=refused)
        self._said = ""

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file; lines are executed as they become complete."""
        return Lines(self) if write else Handle(self)

    def read(self) -> str:
        """Return the output of the last commands."""
        return self._said

    def execute(self, text: str) -> None:
        """Execute `text`. Raises `TracefsError` (EINVAL) if its last command failed."""
        outcome = self._shell.execute(text)
        self._said = outcome.output + outcome.error
        if outcome.status:
            raise TracefsError(errno.EINVAL)


class Lines(Handle):
    """The file opened for writing: a line may arrive in several writes."""

    def __init__(self, ctl: Ctl) -> None:
        super().__init__(ctl)
        self._ctl = ctl
        self._begun = ""

    def write(self, text: str) -> None:
        """Execute the complete lines."""
        whole, newline, rest = (self._begun + text).rpartition("\n")
        self._begun = rest
        if newline:
            self._ctl.execute(whole)

    def close(self) -> None:
        """Execute the last line if no newline has ended it."""
        text, self._begun = self._begun, ""
        if text:
            self._ctl.execute(text)
