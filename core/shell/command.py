"""The shell's commands as data, and the context that a command runs in."""

from __future__ import annotations

import getopt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from ..errors import DynftraceError
from ..views.toned import Toned
from .directory import WorkingDirectory
from .outcome import Effect
from .words import Word

if TYPE_CHECKING:
    from ..session.boot import Boot
    from ..session.session import Session


class Changes(Enum):
    """When a command may change the machine's state."""

    NEVER = 0
    WITH_ARGUMENTS = 1
    """Without arguments the command only shows something."""
    ALWAYS = 2


class Argument(Enum):
    """What a command's arguments name, for completion."""

    NONE = 0
    FILE = 1
    FUNCTION = 2
    WORKLOAD = 3
    AVAILABLE_MODULE = 4
    LOADED_MODULE = 5
    COMMAND = 6


class UsageMistake(DynftraceError):
    """Arguments that a command does not accept; the shell adds the command's usage."""


@dataclass(slots=True)
class Context:
    """One run of a command: the session, and the outcome so far."""

    session: Session
    commands: Mapping[str, Command]
    repeat: Callable[[str], object]
    """Executes a command of the journal again."""
    input: str | None = None
    """Output of the previous command of a pipeline; None for the first command."""
    directory: WorkingDirectory = field(default_factory=WorkingDirectory)
    """Where relative paths begin."""
    output: list[str] = field(default_factory=list)
    toned: list[tuple[int, Toned]] = field(default_factory=list)
    """The lines with tones, and the place of each in `output`."""
    error: list[str] = field(default_factory=list)
    status: int = 0
    effects: list[Effect] = field(default_factory=list)
    changed: bool = False
    """Whether the machine's state may have changed: set before a command runs, see `Changes`."""
    wrong: int | None = None
    """Column of the error in the typed text, from 0, if the arguments could not be parsed."""

    def did(self, effect: Effect) -> None:
        """Add an effect of the command to the outcome."""
        self.effects.append(effect)

    @property
    def boot(self) -> Boot:
        """The current start of the machine; `reboot` replaces it."""
        return self.session.boot

    def line(self, text: str = "") -> None:
        """Write a line to standard output."""
        if isinstance(text, Toned):
            self.toned.append((len(self.output), text))
        self.output.append(text + "\n")

    def warn(self, text: str) -> None:
        """Write a line to standard error; the command continues, and its status stays the same."""
        self.error.append(text + "\n")

    def fail(self, text: str, status: int = 1) -> None:
        """Write a line to standard error; the command continues and exits with `status`."""
        self.error.append(text + "\n")
        self.status = status


Arguments: TypeAlias = Sequence[Word]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `run` executes it, or raises `DynftraceError`.

    `usage` names the arguments, `summary` is its line in `help`, `details` are the
    further lines of `help COMMAND`.
    """

    name: str
    usage: str
    summary: str
    run: Callable[[Context, Arguments], None]
    argument: Argument = Argument.NONE
    details: str = ""
    changes: Changes = Changes.NEVER

    @property
    def synopsis(self) -> str:
        """Name and usage."""
        return f"{self.name} {self.usage}".rstrip()

    def changes_state(self, arguments: Arguments) -> bool:
        """Whether the command can change the machine's state when run with `arguments`."""
        if self.changes is Changes.WITH_ARGUMENTS:
            return bool(arguments)
        return self.changes is Changes.ALWAYS


def expect(arguments: Arguments, least: int, most: int | None = None) -> None:
    """Raise `UsageMistake` unless there are `least` to `most` arguments (None: no limit)."""
    if len(arguments) < least:
        raise UsageMistake("missing argument")
    if most is not None and len(arguments) > most:
        raise UsageMistake(f"unexpected argument '{arguments[most].text}'")


def options_of(
    arguments: Arguments,
    known: str,
    long: Mapping[str, str] | None = None,
    repeated: Mapping[str, list[str]] | None = None,
) -> tuple[dict[str, str], Arguments]:
    """Return the options by letter, as `getopt` describes them, and the other arguments.

    `long` gives the letter of each option that also has a long name; one without a letter is
    accepted and has no effect. All values of the letters in `repeated` are added to its lists.
    """
    letters = long or {}
    ignored = {f"--{name}" for name, letter in letters.items() if not letter}
    arguments = [word for word in arguments if word.text.partition("=")[0] not in ignored]
    words = [word.text for word in arguments]
    names = [name + "=" * (f"{letter}:" in known) for name, letter in letters.items() if letter]
    try:
        given, rest = getopt.gnu_getopt(words, known, names)
    except getopt.GetoptError as error:
        raise UsageMistake(str(error)) from error
    found = {}
    for option, value in given:
        name = option.lstrip("-")
        letter = letters.get(name, name) if option.startswith("--") else name
        found[letter] = value
        if repeated and letter in repeated:
            repeated[letter].append(value)
    # Options may follow arguments, so `getopt` returns texts; find the words of those left.
    left = list(rest)
    others = []
    for word in reversed(arguments):
        if left and word.text == left[-1]:
            others.append(word)
            left.pop()
    return found, others[::-1]


def typed_column(words: Arguments, column: int) -> int:
    """Return the typed column of `column` in `words` joined by blanks."""
    for word in words:
        if column <= len(word.text):
            return word.columns[column]
        column -= len(word.text) + 1
    return words[-1].columns[-1]


def number(text: str, what: str, least: int = 0) -> int:
    """Parse a decimal or 0x number of at least `least`. Raises `UsageMistake`."""
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageMistake(f"{what} must be a number, not '{text}'") from None
    if value < least:
        raise UsageMistake(f"{what} must be at least {least}, not {value}")
    return value


def cpu_number(context: Context, text: str) -> int:
    """Parse the number of an existing vCPU. Raises `UsageMistake`."""
    cpu, cpus = number(text, "CPU"), len(context.session.boot.machine.vcpus)
    if cpu >= cpus:
        raise UsageMistake(f"CPU {cpu} does not exist: {valid_cpus(cpus)}")
    return cpu


def valid_cpus(cpus: int) -> str:
    """Say which CPU numbers a machine with `cpus` CPUs accepts."""
    return "the only CPU is 0" if cpus == 1 else f"valid CPUs are 0-{cpus - 1}"
