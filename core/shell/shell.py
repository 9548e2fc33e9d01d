"""The tracefs shell: runs command lists in a session.

Each command yields an `Outcome`. Errors of the tree are worded as a shell and the C
library word them, such as `write error: Invalid argument`. A text with a syntax error
is rejected as a whole, with status 2, before any of its commands runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..errors import DynftraceError, FtraceBug, GuestInterrupted, TracefsError
from .command import Command, Context, UsageMistake
from .commands import commands
from .completion import Completion, complete
from .outcome import Outcome, Showed, WroteFile, combine
from .parser import Join, Redirection, ShellSyntaxError, SimpleCommand, Word, parse

if TYPE_CHECKING:
    from ..session.session import Session

NAME = "dynftrace"
"""Default prefix of the shell's own messages."""

NOT_FOUND = 127
USAGE = 2


class Shell:
    """Executes text in one session."""

    def __init__(self, session: Session, name: str = NAME, more: Iterable[Command] = ()) -> None:
        """`name` begins the shell's own messages; "" leaves them without a prefix.

        `more` are commands of a front end, in addition to those here.
        """
        self.session = session
        self._prefix = f"{name}: " if name else ""
        self.commands = {**commands(), **{each.name: each for each in more}}

    def run(self, text: str) -> Iterator[Outcome]:
        """Execute the commands of `text`, and yield the outcome of each as it ends.

        Raises `ShellSyntaxError` before the first command.
        """
        return self._run(parse(text))

    def execute(self, text: str) -> Outcome:
        """Execute `text`; return the combined outcome of all its commands."""
        try:
            return combine(self.run(text))
        except ShellSyntaxError as error:
            return Outcome(error=f"{self._prefix}{error}\n", status=USAGE)

    def complete(self, text: str) -> Completion:
        """Complete the last word of the command line `text`."""
        with self.session.lock:
            return complete(self.session, self.commands, text)

    def repeat(self, command: str) -> Outcome:
        """Execute a command of the journal, which records it again."""
        self.session.history.line("")
        return combine(map(self._execute, parse(command)))

    def _run(self, parsed: tuple[SimpleCommand, ...]) -> Iterator[Outcome]:
        status = 0
        for number, command in enumerate(parsed):
            if command.begins_line:
                self.session.history.line(_line(parsed[number:]))
            if (command.join is Join.AND and status) or (command.join is Join.OR and not status):
                continue
            outcome = self._execute(command)
            status = outcome.status
            yield outcome

    def _execute(self, command: SimpleCommand) -> Outcome:
        """Execute one command, and record it in the journal if it may have changed the state."""
        changed = True  # after an exception, the state is unknown
        if self._may_change(command):
            self.session.history.before()
        try:
            outcome = self._do(command)
            changed = outcome.changed
            return outcome
        finally:
            if changed:
                self.session.history.note(str(command))

    def _may_change(self, command: SimpleCommand) -> bool:
        """Whether `command` can change the machine's state; reading a file may, too."""
        words = command.words
        known = self.commands.get(words[0].text) if words else None
        return bool(command.redirections) or (known is not None and known.changes_state(words[1:]))

    def _do(self, command: SimpleCommand) -> Outcome:
        """Execute one command and its redirections."""
        tree = self.session.boot.tracefs
        try:
            # As in a shell: every file is opened (and emptied), the last one gets the output.
            for redirection in command.redirections[:-1]:
                path = redirection.path.text
                tree.open(path, write=True, truncate=not redirection.append).close()
        except TracefsError as error:
            return Outcome(error=f"{self._prefix}{path}: {error}\n", status=1, changed=True)
        outcome = self._call(command.words) if command.words else Outcome()
        if not command.redirections:
            return outcome
        return self._redirect(outcome, command.redirections[-1])

    def _redirect(self, outcome: Outcome, redirection: Redirection) -> Outcome:
        """Write the output of a command to a file.

        This counts as a change even if the write fails: opening may have emptied the file.
        """
        path, tree = redirection.path.text, self.session.boot.tracefs
        # The user has not seen output that went into a file.
        effects = tuple(each for each in outcome.effects if not isinstance(each, Showed))
        error, status = outcome.error, 1
        try:
            handle = tree.open(path, write=True, truncate=not redirection.append)
        except TracefsError as refused:
            error += f"{self._prefix}{path}: {refused}\n"
            return Outcome("", error, status, effects, changed=True)
        try:
            with self.session.lock, handle:
                if outcome.output:
                    handle.write(outcome.output)
        except FtraceBug as bug:
            # The kernel's errno alone does not name the site.
            error += f"{self._prefix}write error: {os.strerror(bug.errno)}: {bug}\n"
        except DynftraceError as refused:
            error += f"{self._prefix}write error: {refused}\n"
        else:
            effects += (WroteFile(tree.canonical(path), outcome.output),)
            status = outcome.status
        return Outcome("", error, status, effects, changed=True, wrong=outcome.wrong)

    def _call(self, words: tuple[Word, ...]) -> Outcome:
        name = words[0].text
        command = self.commands.get(name)
        if command is None:
            error = f"{self._prefix}{name}: command not found\n"
            return Outcome(error=error, status=NOT_FOUND)
        context = Context(self.session, self.commands, self.repeat)
        context.changed = command.changes_state(words[1:])
        try:
            command.run(context, words[1:])
        except UsageMistake as error:
            context.fail(f"{name}: {error}\nusage: {command.synopsis}", USAGE)
        except DynftraceError as error:
            if isinstance(error, GuestInterrupted):
                self.session.history.interrupted()
            context.fail(f"{name}: {error}")
        return Outcome(
            "".join(context.output),
            "".join(context.error),
            context.status,
            tuple(context.effects),
            context.changed,
            context.wrong,
        )


def _line(commands: tuple[SimpleCommand, ...]) -> str:
    """Return the first line of `commands` as it can be typed."""
    text = str(commands[0])
    for command in commands[1:]:
        if command.begins_line:
            break
        text += f"{'' if command.join is Join.ALWAYS else ' '}{command.join.value} {command}"
    return text
