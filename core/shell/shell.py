"""The tracefs shell: runs command lists against a session.

Each command leaves an `Outcome`; errors of the tree come out as a shell and
the C library put them, such as `write error: Invalid argument`. Text that is no
command list is refused as a whole, with status 2, before anything of it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import DynftraceError, FtraceBug, GuestInterrupted, TracefsError
from .command import Context, UsageMistake
from .commands import commands
from .completion import Completion, complete
from .outcome import Outcome, combine
from .parser import Join, Redirection, ShellSyntaxError, SimpleCommand, Word, parse

if TYPE_CHECKING:
    from ..session import Session

NAME = "dynftrace"
"""What stands before the shell's own messages."""

NOT_FOUND = 127
USAGE = 2


class Shell:
    """Executes text for one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.commands = commands()

    def run(self, text: str) -> Iterator[Outcome]:
        """Execute the commands of `text`, yielding what each leaves as it ends.

        Raises `ShellSyntaxError` before the first.
        """
        return self._run(parse(text))

    def execute(self, text: str) -> Outcome:
        """Execute `text`; the outcome is of all its commands together."""
        try:
            return combine(self.run(text))
        except ShellSyntaxError as error:
            return Outcome(error=f"{NAME}: {error}\n", status=USAGE)

    def complete(self, text: str) -> Completion:
        """How the last word of the command line `text` can go on."""
        with self.session.lock:
            return complete(self, text)

    def _changes(self, command: SimpleCommand) -> bool:
        """Whether a command may leave the machine another than it was."""
        known = self.commands.get(command.words[0].text) if command.words else None
        # What is read from a pipe is gone from the buffer.
        consumes = any(word.text.endswith("trace_pipe") for word in command.words)
        return (
            bool(command.redirections)
            or consumes
            or (
                known is not None
                and known.changes
                and not (known.bare_looks and len(command.words) == 1)
            )
        )

    def repeat(self, command: str) -> Outcome:
        """Execute one command of the journal, which notes it again."""
        return combine(map(self._execute, parse(command)))

    def _run(self, parsed: tuple[SimpleCommand, ...]) -> Iterator[Outcome]:
        status = 0
        for command in parsed:
            if (command.join is Join.AND and status) or (command.join is Join.OR and not status):
                continue
            outcome = self._execute(command)
            status = outcome.status
            yield outcome

    def _execute(self, command: SimpleCommand) -> Outcome:
        """One command, which the journal is told of when it has ended."""
        try:
            return self._do(command)
        finally:
            if self._changes(command):
                self.session.journal.note(str(command))

    def _do(self, command: SimpleCommand) -> Outcome:
        """One command, with its output where it is to go."""
        tree = self.session.boot.tracefs
        try:
            # As a shell does: every file is opened (and emptied), the last gets the output.
            for redirection in command.redirections[:-1]:
                path = redirection.path.text
                tree.open(path, write=True, truncate=not redirection.append).close()
        except TracefsError as error:
            return Outcome(error=f"{NAME}: {path}: {error}\n", status=1)
        outcome = self._call(command.words) if command.words else Outcome()
        if not command.redirections:
            return outcome
        return self._redirect(outcome, command.redirections[-1])

    def _redirect(self, outcome: Outcome, redirection: Redirection) -> Outcome:
        path = redirection.path.text
        try:
            handle = self.session.boot.tracefs.open(
                path, write=True, truncate=not redirection.append
            )
        except TracefsError as error:
            return Outcome(error=f"{outcome.error}{NAME}: {path}: {error}\n", status=1)
        try:
            with self.session.lock, handle:
                if outcome.output:
                    handle.write(outcome.output)
        except FtraceBug as error:
            # errno alone, as the kernel has it, would not say which site it is.
            message = f"{outcome.error}{NAME}: write error: {os.strerror(error.errno)}: {error}\n"
            return Outcome(error=message, status=1)
        except DynftraceError as error:
            message = f"{outcome.error}{NAME}: write error: {error}\n"
            return Outcome(error=message, status=1)
        return Outcome(error=outcome.error, status=outcome.status, wrong=outcome.wrong)

    def _call(self, words: tuple[Word, ...]) -> Outcome:
        name = words[0].text
        command = self.commands.get(name)
        if command is None:
            return Outcome(error=f"{NAME}: {name}: command not found\n", status=NOT_FOUND)
        context = Context(self.session, self.commands, self.repeat)
        try:
            command.run(context, words[1:])
        except UsageMistake as error:
            context.fail(f"{name}: {error}\nusage: {command.synopsis}", USAGE)
        except DynftraceError as error:
            if isinstance(error, GuestInterrupted):
                self.session.journal.cut()
            context.fail(f"{name}: {error}")
        return Outcome(
            "".join(context.output), "".join(context.error), context.status, context.wrong
        )
