"""What the console shows, as data: one frozen `View` for each moment.

The thread that runs the machine builds a `View` and hands it to the interface;
widgets read nothing else, so they need no lock and no session. A big table (the
functions, the trace) is formatted only for the rows on the screen. Nothing here
imports numpy: the first paint must not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from .spans import Line

if TYPE_CHECKING:
    from ..core.trace.explorer import TraceExplorer
    from ..core.views.stepping import Stepping


class State(IntEnum):
    """What a call site is at the moment."""

    NOP = 0
    CHOSEN = 1
    """In set_ftrace_filter, but no tracer uses the filter now."""
    TRACED = 2
    REFUSED = 3
    """ftrace found other bytes than it expected and wrote nothing."""


SIGNS = {State.NOP: "·", State.CHOSEN: "+", State.TRACED: "T", State.REFUSED: "!"}
"""One character a state, so that no state is told by colour alone."""

WORDS = {
    State.NOP: "nop",
    State.CHOSEN: "chosen",
    State.TRACED: "traced",
    State.REFUSED: "refused",
}

TONES = {
    State.NOP: "dim",
    State.CHOSEN: "accent",
    State.TRACED: "good",
    State.REFUSED: "bad",
}


@dataclass(frozen=True, slots=True)
class Status:
    """The status line. `now` is virtual ns; `events` and `lost` count the trace's rows."""

    arch: str = ""
    cpus: int = 0
    tracer: str = "nop"
    tracing_on: bool = True
    events: int = 0
    lost: int = 0
    now: int = 0
    patch: str = ""
    ftrace_off: bool = False
    halted: tuple[int, ...] = ()
    """vCPUs that stopped for good with an oops."""
    found: tuple[int, int] | None = None
    """Call sites that are records, and those found since; None where a table lists them all."""


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One line of available_filter_functions, with its state."""

    name: str
    module: str
    state: State
    hits: int = 0
    """How often it was called: see `Functions.counted`."""


class Indices(Protocol):
    """Numbers in an order: a numpy array, or a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> int: ...


class Functions(Protocol):
    """The functions that can be traced, in the order of available_filter_functions."""

    @property
    def counted(self) -> str:
        """What the hits of a row count: `PROFILED` or `IN_TRACE`."""
        ...

    def __len__(self) -> int: ...

    def row(self, index: int) -> FunctionRow:
        """The function at `index`."""
        ...

    def key(self, index: int) -> int:
        """rec.ip of the function at `index`: its identity."""
        ...

    def find(self, key: int) -> int | None:
        """The index of the function whose rec.ip is `key`."""
        ...

    def chosen(self, index: int) -> bool:
        """Whether set_ftrace_filter names it."""
        ...

    def match(self, pattern: str, order: str) -> Indices:
        """Indices of the functions `pattern` matches, in `order` (see `ORDERS`)."""
        ...

    def exact(self, pattern: str) -> int | None:
        """The index of the function that `pattern` names in full, the first that `match` gives."""
        ...

    def complete(self, text: str) -> Sequence[str]:
        """What the filter `text` can become by its last word, as whole filters."""
        ...

    def position(self, shown: Indices, index: int) -> int | None:
        """Where `index` stands in `shown`, a result of `match`."""
        ...

    def traced(self) -> int:
        """How many are traced now."""
        ...


PROFILED = "hits"
"""Calls since the profiler was switched on."""

IN_TRACE = "in trace"
"""Calls that have an event in the trace."""

ORDERS = ("address", "name", "state", "hits")
"""How the function list can be sorted."""


@dataclass(frozen=True, slots=True)
class Report:
    """Something the guest or ftrace has to say that must not be missed.

    `ip` is where it happened; `lines` are shown as they are; `copy` is the
    whole report for the clipboard.
    """

    title: str
    lines: tuple[Line, ...]
    copy: str
    ip: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a command: its texts as the shell gives them."""

    command: str
    output: str = ""
    error: str = ""
    status: int = 0
    ip: int | None = None
    """The call site the command is about, when it asks to see one."""
    column: int | None = None
    """Where in `command` a word begins that could not be read, from 0."""


@dataclass(frozen=True, slots=True)
class View:
    """All of the screen's data at one moment.

    `site` and `path` are the text of the panes for the function under the
    cursor, whose rec.ip is `ip`; `reports` only grows.
    """

    status: Status = Status()
    functions: Functions | None = None
    trace: TraceExplorer | None = None
    ip: int | None = None
    site: tuple[Line, ...] = ()
    site_row: int = 0
    """The row of `site` to have in sight when another site comes."""
    path: tuple[Line, ...] = ()
    reports: tuple[Report, ...] = ()
    stepping: Stepping | None = None
    """Where the CPU is that is stepped, while that is watched."""
