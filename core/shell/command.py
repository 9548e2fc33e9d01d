"""What a shell command is, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from ..errors import DynftraceError
from .parser import Word

if TYPE_CHECKING:
    from ..boot import Boot
    from ..session import Session


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
    """Arguments a command cannot take; the shell adds the command's usage."""


@dataclass(slots=True)
class Context:
    """One run of a command: the session and its streams, filled as it goes."""

    session: Session
    commands: Mapping[str, Command]
    repeat: Callable[[str], object]
    """Executes a command of the journal again."""
    output: list[str] = field(default_factory=list)
    error: list[str] = field(default_factory=list)
    status: int = 0
    wrong: tuple[str, int] | None = None
    """Words that could not be read, joined by blanks, and the column where they are wrong."""

    @property
    def boot(self) -> Boot:
        """The current start of the machine; another one after `reboot`."""
        return self.session.boot

    def line(self, text: str = "") -> None:
        """Put a line on standard output."""
        self.output.append(text + "\n")

    def fail(self, text: str, status: int = 1) -> None:
        """Put a line on standard error; the command goes on and ends with `status`."""
        self.error.append(text + "\n")
        self.status = status


Arguments: TypeAlias = Sequence[Word]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `run` does it, or raises `DynftraceError`.

    `usage` shows the arguments, `summary` is one line for `help`, `details`
    are further lines of it.
    """

    name: str
    usage: str
    summary: str
    run: Callable[[Context, Arguments], None]
    argument: Argument = Argument.NONE
    details: str = ""
    changes: bool = False
    """Whether the machine may be another afterwards, so that going back goes over it."""
    bare_looks: bool = False
    """Whether it only looks where it has no arguments."""

    @property
    def synopsis(self) -> str:
        """Name and usage."""
        return f"{self.name} {self.usage}".rstrip()


def expect(arguments: Arguments, least: int, most: int | None = None) -> None:
    """Raise `UsageMistake` unless there are `least` to `most` (None: any number) arguments."""
    if len(arguments) < least:
        raise UsageMistake("missing argument")
    if most is not None and len(arguments) > most:
        raise UsageMistake(f"unexpected argument '{arguments[most].text}'")


def number(text: str, what: str, least: int = 0) -> int:
    """A decimal or 0x number of at least `least`; raises `UsageMistake`."""
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageMistake(f"{what} must be a number, not '{text}'") from None
    if value < least:
        raise UsageMistake(f"{what} must be at least {least}, not {value}")
    return value


def cpu_number(context: Context, text: str) -> int:
    """The number of a vCPU that there is; raises `UsageMistake`."""
    cpu, cpus = number(text, "CPU"), len(context.boot.machine.vcpus)
    if cpu >= cpus:
        raise UsageMistake(f"CPU {cpu} does not exist: valid CPUs are 0-{cpus - 1}")
    return cpu
