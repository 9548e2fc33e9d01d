"""error_log: why the last commands were refused, each with the place of the error.

Source: tracing_log_err(), tracing_err_log_seq_show() and tracing_err_log_fops in
kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import CommandError
from ..memento import Restore, attributes
from .tree import File, Node

MOST = 8
"""Number of errors that are kept (`TRACING_LOG_ERRS_MAX`)."""

_COMMAND = "  Command: "


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused command. `ns` is the time, `column` the position of the error in `command`."""

    ns: int
    location: str
    reason: str
    command: str
    column: int

    @property
    def text(self) -> str:
        """Three lines: time, parser and reason; the command; a caret."""
        seconds, ns = divmod(self.ns, 1_000_000_000)
        caret = " " * (len(_COMMAND) + self.column) + "^"
        return (
            f"[{seconds:5d}.{ns // 1000:06d}] {self.location}: error: {self.reason}\n"
            f"{_COMMAND}{self.command}\n{caret}\n"
        )


class ErrorLog:
    """The newest refused commands, oldest first."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` returns the time in ns."""
        self._now = now
        self._kept: tuple[Refusal, ...] = ()

    def add(self, location: str, command: str, reason: str, column: int) -> None:
        """Keep an error of the parser `location`; the oldest one makes room."""
        refusal = Refusal(self._now(), location, reason, command, column)
        self._kept = (*self._kept, refusal)[-MOST:]

    def add_command(self, location: str, words: Sequence[str], error: CommandError) -> None:
        """Keep `error`, for which the command of these words was refused."""
        self.add(location, " ".join(words), error.reason, error.column(words))

    def clear(self) -> None:
        """Forget all errors."""
        self._kept = ()

    @property
    def text(self) -> str:
        """The content of the file."""
        return "".join(each.text for each in self._kept)

    def save(self) -> Restore:
        """Return a function that restores the errors."""
        return attributes(self, "_kept")


class ErrorLogFile(File):
    """The errors; emptying the file forgets them."""

    mode = 0o640

    def __init__(self, log: ErrorLog) -> None:
        self._log = log

    def read(self) -> str:
        """Return three lines for each error."""
        return self._log.text

    def write(self, text: str) -> None:
        """Ignore `text`; only emptying the file has an effect."""

    def truncate(self) -> None:
        """Forget all errors."""
        self._log.clear()


def files(log: ErrorLog) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"error_log": ErrorLogFile(log)}
