"""Input of the tracefs shell: a text, a stream of lines, or a user at a prompt.

ctrl+c stops the guest, not the shell: the machine ends its run, and the command that
started it reports the interruption. A script ends there too; the prompt comes back.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from ...core.shell.outcome import Outcome
from ...core.shell.parser import Continuation
from ...core.shell.shell import Shell
from ...core.shell.words import ShellSyntaxError
from ..files.terminal import can_move_cursor
from .exit_status import INTERRUPTED, USAGE

if TYPE_CHECKING:
    from ...core.session.session import Session

CONTINUED = "> "
"""Prompt of the further lines of a command."""

_EXIT = ("exit", "quit")
"""Lines that end the shell; its status is the status of the last command."""

HISTORY_LENGTH = 1000
"""Number of lines kept."""


def prompt(shell: Shell) -> str:
    """Return the prompt, with the current directory as seen from /sys/kernel."""
    return f"{str(shell.directory).removeprefix('/sys/kernel/')}# "


def run_text(session: Session, text: str) -> int:
    """Execute `text` and return the status of its last command."""
    return _execute(Shell(session), text)[0]


def run_before(session: Session, text: str) -> None:
    """Execute `text` and print only its errors, as preparation for another command.

    Raises `UsageError` if `text` has a syntax error.
    """
    try:
        for outcome in Shell(session).run(text):
            _show(Outcome(error=outcome.error))
    except ShellSyntaxError as error:
        raise UsageError(str(error)) from error


def run_lines(session: Session, lines: Iterable[str]) -> int:
    """Execute each line as it arrives and return the status of the last command.

    A command that spans several lines is executed after its last line.
    """
    shell = Shell(session)
    status = 0
    pending, unfinished = [], Continuation()
    for line in lines:
        pending.append(line)
        if unfinished.add(line):
            continue
        text = "".join(pending)
        if text.strip() in _EXIT:
            return status
        status, interrupted = _execute(shell, text)
        if interrupted:
            return status
        pending, unfinished = [], Continuation()
    return _execute(shell, "".join(pending))[0] if pending else status


def run_interactive(session: Session) -> int:
    """Execute typed lines, with line editing, until end of input; return the last status."""
    shell = Shell(session)
    session.history.progress = _show_progress
    status = 0
    pending, unfinished = "", Continuation()
    with _line_editing(shell):
        while True:
            try:
                with _restore_terminal():
                    line = input(CONTINUED if pending else prompt(shell))
            except KeyboardInterrupt:
                print()
                pending, unfinished = "", Continuation()
                continue
            except EOFError:
                print()
                return status
            pending += line + "\n"
            if unfinished.add(line + "\n"):
                continue
            if pending.strip() in _EXIT:
                return status
            status, _ = _execute(shell, pending)
            pending, unfinished = "", Continuation()


def _execute(shell: Shell, text: str) -> tuple[int, bool]:
    """Execute `text`, printing after each command; return its status, and if ctrl+c stopped it."""
    status = 0
    with _stop_on_interrupt(shell.session) as interrupted:
        try:
            for outcome in shell.run(text):
                _show(outcome)
                status = outcome.status
                if interrupted():
                    return INTERRUPTED, True
        except ShellSyntaxError as error:
            _show(Outcome(error=f"dynftrace: {error}\n"))
            return USAGE, False
    return status, False


def _show(outcome: Outcome) -> None:
    sys.stdout.write(outcome.output)
    sys.stdout.flush()
    sys.stderr.write(outcome.error)
    sys.stderr.flush()


def _show_progress(text: str) -> None:
    """Show the progress of `back`, on a line that the next text replaces."""
    if can_move_cursor(sys.stderr):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


@contextmanager
def _stop_on_interrupt(session: Session) -> Iterator[Callable[[], bool]]:
    """Within the context, ctrl+c stops the machine; a second one ends the program.

    Yields a function that returns whether the user has pressed ctrl+c.
    """
    came = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            # Not an exception: this may be within a callback of the emulator.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        came = True
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # after the ^C that the terminal shows
        session.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _restore_terminal() -> Iterator[None]:
    """Within the context, signals raise exceptions, so that line editing ends properly.

    Those that end a program raise `SystemExit`, ctrl+c raises `KeyboardInterrupt`.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: leave,
        signal.SIGHUP: leave,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _line_editing(shell: Shell) -> Iterator[None]:
    """Provide line editing with completion, and a history saved between runs."""
    try:
        import readline
    except ImportError:
        # Python can be built without readline; input then has the terminal's own line editing.
        yield
        return
    from platformdirs import user_state_path

    history = Path(user_state_path("dynftrace")) / "history"
    found: list[str] = []

    def completer(word: str, number: int) -> str | None:
        nonlocal found
        if number == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            found = list(shell.complete(line).words)
        return found[number] if number < len(found) else None

    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n;>&|")
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_LENGTH)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
