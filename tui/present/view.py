"""The content of the console, as data: one frozen `View` for each moment.

The thread that runs the machine builds a `View` and hands it to the interface;
widgets read nothing else, so they need no lock and no session. A big table (the
functions, the trace) is formatted only for the rows on the screen. Nothing here
imports numpy: the first paint must not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from .line import Line

if TYPE_CHECKING:
    from ...core.shell.outcome import Effect
    from ...core.trace.select.explorer import TraceExplorer
    from ...core.views.patching import PatchView
    from ...core.views.stepping import Stepping
    from ...core.views.toned import Toned
    from .call_path import PathText
    from .call_site import SiteText


STEPPING, PATCH, RACE = 5, 6, 7
"""Numbers of the screens of a moment; they continue those of the panes, 1 to 4."""


class State(IntEnum):
    """The current state of a call site."""

    NOP = 0
    CHOSEN = 1
    """set_ftrace_filter names it, but no tracer uses the filter now."""
    TRACED = 2
    REFUSED = 3
    """ftrace found other bytes than it expected and wrote nothing."""


SIGNS = {State.NOP: "·", State.CHOSEN: "+", State.TRACED: "T", State.REFUSED: "!"}
"""A character for each state, so that no state is shown by colour alone."""

WORDS = {
    State.NOP: "off",
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
    """The status line. `now` is virtual ns; `events` counts those in the buffers."""

    arch: str = ""
    cpus: int = 0
    tracer: str = "nop"
    tracing_on: bool = True
    events: int = 0
    overwritten: int = 0
    """Old events that newer ones have overwritten in full buffers."""
    dropped: int = 0
    """New events that found no room, with the option overwrite off."""
    now: int = 0
    patch: str = ""
    ftrace_off: bool = False
    halted: tuple[int, ...] = ()
    """vCPUs that an oops has stopped for good."""
    found: tuple[int, int] | None = None
    """Numbers of ftraced's records and of sites found since; None if a table lists all sites."""
    recorded: bool = False
    """Whether this is a recorded trace, without a machine."""
    boots: bool = True
    """Whether the kernel boots here, and so runs by itself; else its functions can be called."""


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function of available_filter_functions, with its state."""

    name: str
    module: str
    state: State
    hits: int = 0
    """Calls of the function: see `Functions.counted`."""
    ip: int = 0
    """Address of its call site: its identity."""


class Indices(Protocol):
    """An ordered list of indices: a numpy array or a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> int: ...


class Functions(Protocol):
    """The functions that can be traced, in the order of available_filter_functions."""

    @property
    def counted(self) -> str:
        """The calls that the hits of a row count: `PROFILED` or `IN_TRACE`."""
        ...

    def __len__(self) -> int: ...

    def row(self, index: int) -> FunctionRow:
        """Return the function at `index`."""
        ...

    def ip(self, index: int) -> int:
        """Return the address of the call site of the function at `index`: its identity."""
        ...

    def find(self, ip: int) -> int | None:
        """Return the index of the function whose call site is at `ip`."""
        ...

    def chosen(self, index: int) -> bool:
        """Return whether set_ftrace_filter names the function at `index`."""
        ...

    def match(self, pattern: str, order: str) -> Indices:
        """Return the indices that `pattern` matches, in `order` (one of `ORDERS`)."""
        ...

    def as_filter(self, pattern: str) -> str:
        """Return words for set_ftrace_filter that select the functions matching `pattern`."""
        ...

    def exact(self, pattern: str) -> int | None:
        """Return the index of the function whose whole name is `pattern`: the first of `match`."""
        ...

    def complete(self, text: str) -> Sequence[str]:
        """Return filters that complete the last word of `text`."""
        ...

    def position(self, shown: Indices, index: int) -> int | None:
        """Return the position of `index` in `shown`, a result of `match`."""
        ...

    def traced(self) -> int:
        """Return the number of traced functions."""
        ...


PROFILED = "hits"
"""Calls since the profiler was switched on."""

IN_TRACE = "events"
"""Calls that have an event in the trace."""

ORDERS = ("use", "address", "name", "state", "hits")
"""Orders of the function list; `use` has good starting points first, then modules."""


@dataclass(frozen=True, slots=True)
class Report:
    """A message of the guest or of ftrace that the user must not miss."""

    title: str
    lines: tuple[Line, ...]
    copy: str
    """The whole report, for the clipboard."""
    at: int | None = None
    """Address at which it happened: the ip of a call site, or the pc of an oops."""


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a command line."""

    command: str
    output: str = ""
    error: str = ""
    status: int = 0
    effects: tuple[Effect, ...] = ()
    column: int | None = None
    """Column, from 0, of the first word in `command` that could not be parsed."""
    toned: Mapping[int, Toned] = field(default_factory=dict)
    """The lines of `output` whose parts have tones, by the place where each begins."""

    @property
    def site(self) -> int | None:
        """rec.ip of the only call site that the command showed; None if it showed several."""
        from ...core.shell.outcome import ShowedSite

        *before, last = (None, None, *self.effects)
        if self.status or not isinstance(last, ShowedSite) or isinstance(before[-1], ShowedSite):
            return None
        return last.ip if last.recorded else None


@dataclass(frozen=True, slots=True)
class View:
    """All of the screen's data at one moment.

    `site` and `path` belong to the function under the cursor, whose rec.ip is `ip`; `reports`
    only grows.
    """

    status: Status = Status()
    functions: Functions | None = None
    trace: TraceExplorer | None = None
    ip: int | None = None
    site: SiteText | None = None
    start: int | None = None
    """rec.ip of the function to show first, which every workload calls; None without it."""
    path: PathText | None = None
    reports: tuple[Report, ...] = ()
    stepping: Stepping | None = None
    """The state of the CPU being stepped; None while none is watched."""
    call: PathText | None = None
    """The path of the call that led the watched CPU to its position."""
    patching: PatchView | None = None
    """The patch that is under way."""
    watching: bool = False
    """Whether the next patch stops in front of its first phase."""
    experiments: frozenset[str] = frozenset()
    """Titles of the experiments that work on this machine now."""
    sights: Mapping[int, tuple[Effect, ...]] = field(default_factory=dict)
    """Effects of the commands that show the same as each pane, by the pane's number."""

    def contents(self) -> Mapping[int, object]:
        """Return the content of each pane, by its number, to detect changes."""
        return {
            **{2: self.site, 3: self.path, 4: self.trace},
            **{STEPPING: self.stepping, PATCH: self.patching},
        }
