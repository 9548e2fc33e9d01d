"""The result of a command: its output, its exit status, and what it did.

Text is for people. Code that needs to know *what a command did* (the console, the tours, the
journal) reads the effects, which the command states itself, and never parses command lines
or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..views.toned import Toned

if TYPE_CHECKING:
    from ..session.race import Table

# What was shown


@dataclass(frozen=True, slots=True)
class ShowedSite:
    """The call site of a function; the first site if several functions have that name."""

    ip: int
    function: str
    """Its name, without the ABI's prefix of code names."""
    recorded: bool = True
    """Whether ftrace has a record of the site; `ip` is then rec.ip."""


@dataclass(frozen=True, slots=True)
class ShowedRecords:
    """Entries of the compiler's lists of call sites: of one function, or all ("")."""

    function: str = ""


@dataclass(frozen=True, slots=True)
class ShowedPath:
    """The path of a call through ftrace_caller to the tracer."""


@dataclass(frozen=True, slots=True)
class ShowedStubs:
    """The stubs of a module."""

    module: str


@dataclass(frozen=True, slots=True)
class ShowedBits:
    """The bit fields of the instruction at `address`, in `symbol` ("" for no symbol)."""

    address: int
    symbol: str


@dataclass(frozen=True, slots=True)
class ShowedRegisters:
    """The registers of a vCPU."""

    cpu: int


@dataclass(frozen=True, slots=True)
class ShowedStack:
    """The stack of a vCPU."""

    cpu: int


@dataclass(frozen=True, slots=True)
class ShowedPicture:
    """A picture: `map`, `lanes`, `flame` or `hist`."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowedPatchMethods:
    """How text is patched."""


@dataclass(frozen=True, slots=True)
class ShowedRace:
    """The fates of CPUs that raced a patch of the site of `function`, as it was typed."""

    function: str
    table: Table = field(compare=False, repr=False)
    """What it showed."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The content of a file; `path` is relative to the root of tracefs, or begins at /proc."""

    path: str


# What was done


@dataclass(frozen=True, slots=True)
class WroteFile:
    """`text` was written to a file; `path` as in `ReadFile`."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class NotWritten:
    """A file refused a text with `errno`; `path` as in `ReadFile`."""

    path: str
    errno: int
    emptied: bool
    """Whether it was opened with `>`, which empties many files before the text is refused."""


@dataclass(frozen=True, slots=True)
class NotPatched:
    """ftrace refused to change a call site, which did not hold what ftrace expected."""

    ip: int
    function: str
    """Its name, without the ABI's prefix of code names."""


@dataclass(frozen=True, slots=True)
class RanWorkload:
    """A workload ran to its end without an error."""

    name: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Reached:
    """`until` ran up to `place`, as it was typed: `cpu` is about to execute `pc`."""

    place: str
    cpu: int
    pc: int


@dataclass(frozen=True, slots=True)
class Stepped:
    """`step`, `next` or `finish` ran; `cpu` is the vCPU on which it ended."""

    cpu: int


@dataclass(frozen=True, slots=True)
class Patched:
    """`patch next` or `finish` ran; `phase` comes next, from 1, or 0 if the patch is complete."""

    phase: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module was loaded; `module` is its name, not its file's."""

    module: str


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """The kernel refused to load a module; `module` is the name that was typed."""

    module: str


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A module was unloaded."""

    module: str


@dataclass(frozen=True, slots=True)
class Rebooted:
    """The machine was started again."""


@dataclass(frozen=True, slots=True)
class WentBack:
    """The last `count` lines were undone."""

    count: int


@dataclass(frozen=True, slots=True)
class WentForward:
    """`count` undone lines were done again."""

    count: int


@dataclass(frozen=True, slots=True)
class WentTo:
    """`goto` went to another instant; `cpu` is the vCPU that has arrived there."""

    cpu: int


Showed = (
    ShowedSite
    | ShowedRecords
    | ShowedPath
    | ShowedStubs
    | ShowedBits
    | ShowedRegisters
    | ShowedStack
    | ShowedPicture
    | ShowedPatchMethods
    | ShowedRace
    | ReadFile
)
"""Effects of showing output. A redirected command has none: the user saw no output."""

Effect = (
    Showed
    | WroteFile
    | NotWritten
    | NotPatched
    | RanWorkload
    | Reached
    | Stepped
    | Patched
    | Loaded
    | NotLoaded
    | Unloaded
    | Rebooted
    | WentBack
    | WentForward
    | WentTo
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Standard output, standard error, exit status and effects of one or more commands."""

    output: str = ""
    error: str = ""
    status: int = 0
    effects: tuple[Effect, ...] = ()
    """In the order in which they happened, including those before a failure."""
    changed: bool = False
    """Whether the machine's state may have changed, so that `back` has to undo it."""
    wrong: int | None = None
    """Column of the last command's parse error in the typed text, from 0."""
    toned: Mapping[int, Toned] = field(default_factory=dict)
    """The lines of the output whose parts have tones, by the place where each begins."""


def combine(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome of a list of commands: all text and effects, the status of the last."""
    output: list[str] = []
    error: list[str] = []
    effects: list[Effect] = []
    toned: dict[int, Toned] = {}
    status, changed, wrong, size = 0, False, None, 0
    for outcome in outcomes:
        output.append(outcome.output)
        toned |= {size + at: line for at, line in outcome.toned.items()}
        size += len(outcome.output)
        error.append(outcome.error)
        effects += outcome.effects
        changed = changed or outcome.changed
        status, wrong = outcome.status, outcome.wrong
    return Outcome("".join(output), "".join(error), status, tuple(effects), changed, wrong, toned)
