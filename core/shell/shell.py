"""The tracefs shell: runs pipelines and loops in a session.

Each command yields an `Outcome`. Errors of the tree have the wording of a shell and the C library,
such as `write error: Invalid argument`. A text with a syntax error is rejected as a whole, with
status 2, before any of its commands runs. An interrupt ends the whole text, as in a shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import accumulate
from shlex import quote
from typing import TYPE_CHECKING

from ..errors import DynftraceError, FtraceBug, GuestInterrupted, TracefsError
from .command import Command, Context, UsageMistake
from .commands import commands
from .completion import Completion, complete
from .directory import MOUNTED, WorkingDirectory
from .outcome import Effect, Outcome, Showed, WroteFile, combine
from .parser import Choice, Join, Loop, Pipeline, Redirection, SimpleCommand, Step, listed, parse
from .refusal import not_patched, not_written
from .unknown import not_found
from .words import ShellSyntaxError, Word

if TYPE_CHECKING:
    from ..session.session import Session

NAME = "dynftrace"
"""Default prefix of the shell's own messages."""

NULL = "/dev/null"
"""The only file outside the tree: it takes everything and is empty."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

NOT_FOUND = 127
USAGE = 2


class Shell:
    """Executes text in one session."""

    def __init__(self, session: Session, name: str = NAME, more: Iterable[Command] = ()) -> None:
        """`name` begins the shell's own messages; "" leaves them without a prefix.

        `more` are additional commands of a front end.
        """
        self.session = session
        self._prefix = f"{name}: " if name else ""
        self.commands = {**commands(), **{each.name: each for each in more}}
        self._variables = {"?": "0"}
        self._interrupted = False
        self.directory = WorkingDirectory()
        """The current directory."""

    def run(self, text: str) -> Iterator[Outcome]:
        """Execute the pipelines of `text`, and yield the outcome of each as it ends.

        Raises `ShellSyntaxError` before the first command.
        """
        steps = parse(text)
        self._interrupted = False
        return self._run(steps)

    def execute(self, text: str, from_root: bool = False) -> Outcome:
        """Execute `text`; return the combined outcome of all its commands.

        `from_root` is for commands that the user did not type: their paths begin at the root of
        tracefs.
        """
        try:
            with self._at_root() if from_root else nullcontext():
                return combine(self.run(text))
        except ShellSyntaxError as error:
            return Outcome(error=f"{self._prefix}{error}\n", status=USAGE)

    def complete(self, text: str) -> Completion:
        """Complete the last word of the command line `text`."""
        with self.session.lock:
            return complete(self.session, self.commands, text, self.directory)

    def repeat(self, command: str) -> Outcome:
        """Execute a command of the journal, which records it again."""
        self.session.history.line("")
        with self._at_root():
            return combine(self._run(parse(command), new_lines=False))

    @contextmanager
    def _at_root(self) -> Iterator[None]:
        """Within the context, the current directory is the root of tracefs."""
        before, self.directory = self.directory, WorkingDirectory()
        try:
            yield
        finally:
            self.directory = before

    def _run(self, steps: tuple[Step, ...], new_lines: bool = True) -> Iterator[Outcome]:
        status = 0
        for number, step in enumerate(steps):
            if new_lines and step.begins_line:
                self.session.history.line(_line(steps[number:]))
            if (step.join is Join.AND and status) or (step.join is Join.OR and not status):
                continue
            for outcome in self._step(step):
                status = outcome.status
                yield outcome
            if self._interrupted:
                return

    def _step(self, step: Step) -> Iterable[Outcome]:
        match step:
            case Loop():
                return self._loop(step)
            case Choice():
                return self._choice(step)
        return [self._execute(step)]

    def _choice(self, choice: Choice) -> Iterator[Outcome]:
        """Execute the body of the first condition that holds."""
        for condition, body in choice.branches:
            yield from self._run(condition)
            if self._interrupted:
                return
            if self._variables["?"] == "0":
                yield from self._run(body)
                return
        self._variables["?"] = "0"
        yield Outcome()
        yield from self._run(choice.otherwise)

    def _loop(self, loop: Loop) -> Iterator[Outcome]:
        """Execute the body once for each value."""
        values = [word.expand(self._variables).text for word in loop.values]
        for value in values:
            self._variables[loop.name] = value
            yield from self._run(loop.body)
            if self._interrupted:
                return

    def _execute(self, typed: Pipeline) -> Outcome:
        """Execute one pipeline, and record it in the journal if it may have changed the state."""
        pipeline = typed.expand(self._variables)
        if not self.session.boot.tracefs.is_dir(self.directory.path):
            lost, self.directory = self.directory, WorkingDirectory()
            error = f"{self._prefix}{lost} has been removed: the current directory is {MOUNTED}\n"
            self._variables["?"] = "1"
            return Outcome(error=error, status=1)
        # Actions of the journal begin at the root, whatever the current directory is on replay.
        there = f"cd {quote(str(self.directory))} && " if self.directory.path else ""
        changed = True  # after an exception, the state is unknown
        if self._may_change(pipeline):
            self.session.history.before()
        try:
            outcome = self._pipe(pipeline)
            changed = outcome.changed
            self._variables["?"] = str(outcome.status)
            return outcome
        finally:
            self.session.boot.ftrace.patcher.end_of_command()
            if changed:
                self.session.history.note(there + str(pipeline))

    def _may_change(self, pipeline: Pipeline) -> bool:
        """Whether `pipeline` can change the machine's state; reading a file may, too."""
        for command in pipeline.commands:
            known = self.commands.get(command.name)
            outputs = (to for to in command.redirections if to.takes_output)
            if any(to.path.text != NULL for to in outputs) or (
                known is not None and known.changes_state(command.words[1:])
            ):
                return True
        return False

    def _pipe(self, pipeline: Pipeline) -> Outcome:
        """Execute the commands in order, each with the output of the previous one as input."""
        done: list[Outcome] = []
        given: str | None = None
        here = replace(self.directory)
        for command in pipeline.commands:
            outcome = self._do(command, given)
            given = outcome.output
            done.append(outcome)
        if len(done) > 1:
            self.directory = here  # the commands of a pipe run in subshells
        whole = combine(done)
        return replace(whole, output=done[-1].output, toned=done[-1].toned)

    def _do(self, command: SimpleCommand, given: str | None) -> Outcome:
        """Execute one command on its input and write its output to its redirections."""
        tree = self.session.boot.tracefs
        outputs = [to for to in command.redirections if to.takes_output]
        errors = [to for to in command.redirections if to.operator in ("2>", "2>&")]
        for to in errors:
            if to.operator == "2>" and to.path.text != NULL:
                error = f"{self._prefix}{to.path.text}: errors can only go to {NULL} or &1\n"
                return Outcome(error=error, status=1)
        try:
            for to in command.redirections:
                path = to.path.text
                absolute = self.directory.absolute(path)
                if to.operator == "<":
                    given = "" if path == NULL else tree.read(absolute)
                elif to in outputs[:-1] and path != NULL:
                    # As in a shell: every file is opened (and emptied), the last one is written.
                    tree.open(absolute, write=True, truncate=not to.append).close()
        except TracefsError as error:
            changed = bool(outputs)
            return Outcome(error=f"{self._prefix}{path}: {error}\n", status=1, changed=changed)
        outcome = self._call(command.words, given) if command.words else Outcome()
        if errors:
            shown = outcome.error if errors[-1].operator == "2>&" else ""
            outcome = replace(outcome, output=outcome.output + shown, error="")
        return self._redirect(outcome, outputs[-1]) if outputs else outcome

    def _redirect(self, outcome: Outcome, redirection: Redirection) -> Outcome:
        """Write the output of a command to a file.

        This counts as a change even if the write fails: opening may have emptied the file.
        """
        path, tree = redirection.path.text, self.session.boot.tracefs
        absolute = self.directory.absolute(path)
        # The user has not seen output that went into a file.
        effects: tuple[Effect, ...] = tuple(
            each for each in outcome.effects if not isinstance(each, Showed)
        )
        error, status = outcome.error, 1
        if path == NULL:
            return replace(outcome, output="", toned={}, effects=effects)
        try:
            handle = tree.open(absolute, write=True, truncate=not redirection.append)
        except TracefsError as refused:
            outside = path.startswith("/") and not path.startswith(tree.mount_points)
            hint = ": the shell only writes to tracefs and /dev/null" if outside else ""
            error += f"{self._prefix}{path}: {refused}{hint}\n"
            if not outside:
                effects += not_written(self.session.boot, refused, absolute, redirection.append)
            return Outcome("", error, status, effects, changed=True)
        try:
            with self.session.lock, handle:
                if outcome.output:
                    handle.write(outcome.output)
        except DynftraceError as refused:
            # The kernel's errno alone does not name the site.
            number = f"{os.strerror(refused.errno)}: " if isinstance(refused, FtraceBug) else ""
            error += f"{self._prefix}write error: {number}{refused}\n"
            effects += not_written(self.session.boot, refused, absolute, redirection.append)
        else:
            effects += (WroteFile(tree.canonical(absolute), outcome.output),)
            status = outcome.status
        return Outcome("", error, status, effects, changed=True, wrong=outcome.wrong)

    def _call(self, words: tuple[Word, ...], given: str | None) -> Outcome:
        name = words[0].text
        command = self.commands.get(name)
        if command is None:
            if self._assign(words):
                return Outcome()
            error = f"{self._prefix}{not_found(name, self.commands)}\n"
            return Outcome(error=error, status=NOT_FOUND)
        context = Context(self.session, self.commands, self.repeat, given, self.directory)
        context.changed = command.changes_state(words[1:])
        try:
            command.run(context, words[1:])
        except UsageMistake as error:
            context.fail(f"{name}: {error}\nusage: {command.synopsis}", USAGE)
        except DynftraceError as error:
            if isinstance(error, GuestInterrupted):
                self._interrupted = True
                self.session.history.interrupted()
            context.effects += not_patched(self.session.boot, error)
            context.fail(f"{name}: {error}")
        starts = [0, *accumulate(map(len, context.output))] if context.toned else []
        return Outcome(
            "".join(context.output),
            "".join(context.error),
            context.status,
            tuple(context.effects),
            context.changed,
            context.wrong,
            {starts[number]: line for number, line in context.toned},
        )

    def _assign(self, words: tuple[Word, ...]) -> bool:
        """Set variables if `words` are `NAME=VALUE`, or `export` and such words."""
        if words[0].text == "export" and len(words) > 1:
            words = words[1:]
        found = [_ASSIGNMENT.fullmatch(word.text) for word in words]
        for match in found:
            if match is None:
                return False
        self._variables |= {match[1]: match[2] for match in found if match is not None}
        return True


def _line(steps: tuple[Step, ...]) -> str:
    """Return the first line of `steps` as it can be typed."""
    later = (number for number, step in enumerate(steps[1:], 1) if step.begins_line)
    return listed(steps[: next(later, len(steps))])
