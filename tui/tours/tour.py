"""Tours and labs: lessons in steps, each with something to do and a check that it was done.

`lesson_file` reads them from Markdown; docs/lessons.md describes the format. A check is either

    COMMAND => REGEX     a line of the command's output matches
    COMMAND =/> REGEX    no line of the output matches
    saw WHAT [NAME]      the student saw it during this step, by any means
    did WHAT [NAME]      the student did it during this step, by any means

`saw` and `did` compare effects (see `DEEDS`), and not the text of commands: `saw site
schedule` holds after `site schedule`, and after the call-site pane was opened by keys, mouse
or palette. Without a NAME, any name matches. A step without a check is only for reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from ... import arches
from ...core.errors import FtraceBug, GuestError, ImageError, UsageError
from ...core.shell import outcome
from ...core.shell.outcome import Effect

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ...core.shell.shell import Shell

DEEDS: Mapping[str, tuple[type[Effect], str]] = MappingProxyType(
    {
        "saw site": (outcome.ShowedSite, "function"),
        "saw records": (outcome.ShowedRecords, "function"),
        "saw bits": (outcome.ShowedBits, "symbol"),
        "saw path": (outcome.ShowedPath, ""),
        "saw stubs": (outcome.ShowedStubs, "module"),
        "saw registers": (outcome.ShowedRegisters, ""),
        "saw stack": (outcome.ShowedStack, ""),
        "saw picture": (outcome.ShowedPicture, "name"),
        "saw methods": (outcome.ShowedPatchMethods, ""),
        "saw race": (outcome.ShowedRace, "function"),
        "saw file": (outcome.ReadFile, "path"),
        "saw refusal": (outcome.NotLoaded, "module"),
        "saw bug": (outcome.NotPatched, "function"),
        "saw error": (outcome.NotWritten, "path"),
        "did write": (outcome.WroteFile, "path"),
        "did run": (outcome.RanWorkload, "name"),
        "did reach": (outcome.Reached, "place"),
        "did step": (outcome.Stepped, ""),
        "did patch": (outcome.Patched, ""),
        "did load": (outcome.Loaded, "module"),
        "did unload": (outcome.Unloaded, "module"),
        "did reboot": (outcome.Rebooted, ""),
        "did undo": (outcome.WentBack, ""),
        "did redo": (outcome.WentForward, ""),
        "did goto": (outcome.WentTo, ""),
    }
)
"""Effects that `saw` and `did` can check, each with the attribute that NAME must equal."""


class Said(Protocol):
    """The two streams of a command's outcome."""

    @property
    def output(self) -> str:
        """Text on standard output."""
        ...

    @property
    def error(self) -> str:
        """Text on standard error."""
        ...


Execute = Callable[[str], Said]
"""A function that executes a shell command, here only commands that change nothing."""


@dataclass(frozen=True, slots=True)
class Shows:
    """A check that a line of a command's output matches, or with `wanted` false that none does."""

    command: str
    pattern: re.Pattern[str]
    wanted: bool = True
    where: str = field(default="", compare=False)
    """File, line and column of the check."""

    def holds(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether the check holds now."""
        said = execute(self.command)
        lines = [*said.output.splitlines(), *said.error.splitlines()]
        return any(self.pattern.search(line) for line in lines) == self.wanted

    def __str__(self) -> str:
        return f"{self.command} {'=>' if self.wanted else '=/>'} {self.pattern.pattern}"


@dataclass(frozen=True, slots=True)
class Deed:
    """A check that an effect happened during the step; an empty `name` matches any."""

    effect: type[Effect]
    attribute: str
    name: str
    where: str = field(default="", compare=False)
    """File, line and column of the check."""

    def holds(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether one of the step's `effects` matches."""
        return any(
            isinstance(each, self.effect)
            and (not self.name or getattr(each, self.attribute) == self.name)
            for each in effects
        )

    def __str__(self) -> str:
        deed = next(deed for deed, (effect, _) in DEEDS.items() if effect is self.effect)
        return f"{deed} {self.name}".rstrip()


Check = Shows | Deed


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a tour."""

    title: str
    text: str
    """Markdown without the special blocks and the task."""
    task: str = ""
    """The task: the last paragraph. Empty for a step without a check."""
    commands: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    hints: tuple[str, ...] = ()
    """Hints, from a first idea to the exact action."""
    pane: int = 0
    """The pane that the console shows as the step begins, 1 to 4; 0 leaves it as it is."""
    where: str = ""
    """File, line and column of the step's heading."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The functions whose call sites the student has to see."""
        deeds = (check for check in self.checks if isinstance(check, Deed))
        return tuple(deed.name for deed in deeds if deed.effect is outcome.ShowedSite and deed.name)

    def open_checks(self, effects: Sequence[Effect], execute: Execute) -> tuple[Check, ...]:
        """Return the checks that do not hold, given the `effects` of the step so far."""
        return tuple(check for check in self.checks if not check.holds(effects, execute))

    def done(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether all checks hold, given the `effects` of the step so far."""
        return all(check.holds(effects, execute) for check in self.checks)


@dataclass(frozen=True, slots=True)
class Tour:
    """A title, steps, and the options of the machine for them."""

    name: str
    title: str
    summary: str
    steps: tuple[Step, ...]
    kernel: str = arches.DEFAULT
    cpus: int = 2
    modules: tuple[str, ...] = ()
    patch: str | None = None
    nop: str | None = None
    own: bool = False
    """Whether it opens the reader's own kernel instead, if that can be opened."""
    setup: tuple[str, ...] = ()
    """Commands executed after each boot; the student can undo none of them."""
    path: Path | None = None
    """The file; None for a text that was not read from one."""

    def open(self, at: int = 0) -> Session:
        """Open the tour's machine in the state before step `at`, counted from 0.

        Raises what `Session.open` raises, and `UsageError` if a command of `setup` fails.
        """
        from ...core.shell.shell import Shell

        session = (self._open_own() if self.own else None) or self._open_known()
        if self.setup:
            session.prepare(lambda: self._set_up(Shell(session, "")))
        if at:
            # A shell without `port`: opening a lesson must never execute a file of Python.
            shell = Shell(session, "")
            for step in self.steps[:at]:
                for command in step.commands:
                    shell.execute(command)
        return session

    def machines(self) -> tuple[Tour, ...]:
        """Return a tour for each machine that the lesson may open here."""
        from . import own_kernel

        if not self.own or own_kernel.find() is None:
            return (self,)
        return self, replace(self, name=f"{self.name} (teaching kernel)", own=False)

    def _open_known(self) -> Session:
        """Open the machine with a kernel that comes with the program."""
        from ...core.session.session import MachineSpec, Session

        spec = MachineSpec(modules=self.modules, cpus=self.cpus, patch=self.patch, nop=self.nop)
        return Session.open(arches.load(self.kernel), spec)

    def _open_own(self) -> Session | None:
        """Open the reader's own kernel; None if none can be opened."""
        from ...core.session.session import MachineSpec, Session
        from . import own_kernel

        found = own_kernel.find()
        if found is None:
            return None
        port, path = found
        try:
            return Session.open(arches.load(port), MachineSpec(kernel=path, cpus=self.cpus))
        except (ImageError, FtraceBug, GuestError):
            return None

    def _set_up(self, shell: Shell) -> None:
        for command in self.setup:
            outcome = shell.execute(command)
            if outcome.status:
                reason = (outcome.error or outcome.output).strip()
                raise UsageError(f"{self.path or self.name}: setup: '{command}' failed: {reason}")


def shell_of(session: Session, name: str = "") -> Shell:
    """Return a shell for `session` with the commands of lessons; `name` as in `Shell`."""
    from ...core.shell.shell import Shell
    from .port_command import PortCommand

    return Shell(session, name, [PortCommand().command()])
