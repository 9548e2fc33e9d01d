"""Histograms of events: their definition.

    hist:[name=NAME:]keys=EXPR[,…][:vals=EXPR[,…]][:VAR=EXPR[,…]][:sort=FIELD[.descending][,…]]
         [:size=N][:clock=CLOCK][:pause|cont|clear][:HANDLER.ACTION]…

histparser.py parses definitions, histtext.py shows the counts. Source:
Documentation/trace/histogram.rst, struct hist_trigger_data, hist_field_name() and
event_hist_trigger_print() in kernel/trace/trace_events_hist.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Flag, auto

from ..abi import HIST_STACK, FilterKind, HistAction, HistHandler, HistKind
from .fields import Field
from .synth import SynthEvent

HITCOUNT = "hitcount"
STACKTRACE = "stacktrace"


class Is(Flag):
    """Kinds of a histogram's field (`enum hist_field_flags`)."""

    NOTHING = 0
    HITCOUNT = auto()
    KEY = auto()
    STRING = auto()
    HEX = auto()
    SYM = auto()
    SYM_OFFSET = auto()
    EXECNAME = auto()
    SYSCALL = auto()
    STACKTRACE = auto()
    LOG2 = auto()
    TIMESTAMP = auto()
    USECS = auto()
    VAR = auto()
    EXPR = auto()
    VAR_REF = auto()
    CPU = auto()
    ALIAS = auto()
    BUCKET = auto()
    CONST = auto()
    PERCENT = auto()
    GRAPH = auto()


MODIFIERS = {
    "hex": Is.HEX,
    "sym": Is.SYM,
    "sym-offset": Is.SYM_OFFSET,
    "execname": Is.EXECNAME,
    "syscall": Is.SYSCALL,
    "log2": Is.LOG2,
    "buckets": Is.BUCKET,
    "usecs": Is.USECS,
    "percent": Is.PERCENT,
    "graph": Is.GRAPH,
}
"""Modifiers, written after a field and a dot; of several, the first in this order is shown."""


@dataclass(frozen=True, slots=True)
class Op:
    """A step of an expression, as in `struct hist_op`."""

    kind: FilterKind | HistKind
    offset: int = 0
    size: int = 8
    signed: bool = False
    value: int = 0


@dataclass(slots=True, eq=False)
class HistField:
    """A key, a value, a variable, or a part of an expression."""

    flags: Is
    ops: tuple[Op, ...] = ()
    """The steps by which the guest computes it."""
    size: int = 8
    """Bytes of the number or string."""
    signed: bool = False
    ctype: str = "u64"
    field: Field | None = None
    """The event's field, if it is a field of the event."""
    own_name: str = ""
    """Text of an expression, or name of the referenced variable."""
    full_name: str = ""
    """The referenced variable with its event, if the definition names the event."""
    constant: int = 0
    buckets: int = 0
    var: str = ""
    """Name of the variable that it defines."""
    index: int = 0
    """Number of that variable in its histogram; of a reference, in the histogram's list."""
    hist: Hist | None = None
    """The histogram that has the variable."""
    once: bool = False
    """Whether reading the variable through this reference unsets it."""
    offset: int = 0
    """Offset of a key in the compound key, in bytes."""

    @property
    def name(self) -> str:
        """The name that rows show, and that sort keys have (`hist_field_name`)."""
        if self.field is not None:
            return self.field.plain_name
        if self.flags & Is.CPU:
            return "common_cpu"
        if self.flags & (Is.EXPR | Is.VAR_REF | Is.ALIAS):
            return self.full_name or self.own_name
        return "common_timestamp" if self.flags & Is.TIMESTAMP else ""

    @property
    def modifier(self) -> str:
        """The modifier with its dot, or nothing."""
        return next((f".{name}" for name, flag in MODIFIERS.items() if self.flags & flag), "")

    @property
    def operand(self) -> str:
        """The field in the text of an expression (`expr_field_str`)."""
        if self.flags & Is.VAR_REF:
            return f"${self.name}"
        return f"{self.constant if self.flags & Is.CONST else ''}{self.name}{self.modifier}"

    @property
    def text(self) -> str:
        """The field as a definition shows it (`hist_field_print`)."""
        if self.flags & Is.STACKTRACE and self.flags & Is.KEY:
            return STACKTRACE
        shown = f"{self.var}=" if self.var else ""
        if self.flags & Is.CPU:
            shown += "common_cpu"
        elif self.flags & Is.CONST:
            shown += str(self.constant)
        else:
            shown += f"{'$' if self.flags & (Is.VAR_REF | Is.ALIAS) else ''}{self.name}"
        if not self.flags & (Is.VAR_REF | Is.EXPR):
            shown += self.modifier
        return f"{shown}={self.buckets}" if self.buckets else shown

    @property
    def is_string(self) -> bool:
        """Whether it is a text."""
        return bool(self.flags & Is.STRING)

    @property
    def signature(self) -> tuple[object, ...]:
        """The properties that equal fields share (`hist_trigger_match`)."""
        event = self.field and (self.field.name, self.field.kind, self.field.size)
        return (self.flags, event, self.offset, self.size, self.signed, self.var)


STACK_SIZE = 8 * HIST_STACK
"""Bytes of a key that is a stack trace."""


@dataclass(slots=True, eq=False)
class Action:
    """What to do after the histogram has counted an event."""

    handler: HistHandler
    action: HistAction
    name: str
    """The action as written; the name of a synthetic event means `trace`."""
    params: tuple[str, ...]
    synth_name: str = ""
    """First parameter of `trace`."""
    match: tuple[str, str] = ("", "")
    """System and event of `onmatch`."""
    tracked: str = ""
    """The variable of `onmax` or `onchange`, with its $."""
    ref: int = 0
    """Number of the reference to that variable."""
    var: int = 0
    """Number of the variable that keeps its value."""
    event: SynthEvent | None = None
    refs: tuple[int, ...] = ()
    """Numbers of the references whose values the fields of the event get."""

    @property
    def text(self) -> str:
        """The action as a definition shows it."""
        handler = self.handler.name.lower()
        of = ".".join(self.match) if self.handler is HistHandler.ONMATCH else self.tracked
        params = ([self.synth_name] if self.synth_name else []) + [*self.params]
        return f"{handler}({of}).{self.name}({','.join(params)})"

    @property
    def signature(self) -> tuple[object, ...]:
        """The properties that equal actions share (`actions_match`)."""
        name = self.synth_name or self.name
        return (self.handler, self.action, self.params, name, self.match, self.tracked)


@dataclass(frozen=True, slots=True)
class SortKey:
    """The order of the rows: by a key or value, None for the number of hits."""

    field: HistField | None = None
    descending: bool = False

    @property
    def text(self) -> str:
        """The sort key as a definition shows it."""
        name = HITCOUNT if self.field is None else self.field.text
        return f"{name}{'.descending' if self.descending else ''}"


@dataclass(slots=True, eq=False)
class Hist:
    """The definition of a histogram, and its address in the guest."""

    group: str
    """System of its event."""
    event: str
    keys: list[HistField] = field(default_factory=list)
    vals: list[HistField] = field(default_factory=list)
    """The values without the number of hits, which always comes first."""
    vars: list[HistField] = field(default_factory=list)
    """Variables of the definition."""
    field_vars: list[HistField] = field(default_factory=list)
    """Variables that actions need: fields of this event."""
    save_vars: list[HistField] = field(default_factory=list)
    """Variables of the action `save`."""
    tracked: int = 0
    """Number of variables that keep the reference values of `onmax` and `onchange`."""
    refs: list[HistField] = field(default_factory=list)
    """The variables that it reads."""
    actions: list[Action] = field(default_factory=list)
    sort: tuple[SortKey, ...] = (SortKey(),)
    bits: int = 11
    """The map has room for 1 << bits entries."""
    name: str = ""
    """Its `name=`: histograms of several events with the same name share their counts."""
    change: str = ""
    """`pause`, `cont` or `clear`, if the definition has it."""
    clock: str = "global"
    timestamps: bool = False
    """Whether it needs the time, and so `clock`."""
    in_usecs: bool = False
    """Whether all its times are in microseconds."""
    others: list[tuple[str, str, str]] = field(default_factory=list)
    """System, event and definition of the histograms that were made for its actions."""
    address: int = 0
    """Guest address of its `struct hist_trigger`; 0 before it is stored."""

    @property
    def size(self) -> int:
        """Maximum number of entries."""
        return 1 << self.bits

    @property
    def key_size(self) -> int:
        """Bytes of a whole key."""
        return sum(each.size for each in self.keys)

    @property
    def nr_vars(self) -> int:
        """Number of all variables."""
        return len(self.vars) + len(self.field_vars) + len(self.save_vars) + self.tracked

    @property
    def has_comm(self) -> bool:
        """Whether an entry keeps the name of the task that made it."""
        return any(each.flags & Is.EXECNAME for each in (*self.vals, *self.vars, *self.keys))

    @property
    def signature(self) -> tuple[object, ...]:
        """The properties that equal histograms share (`hist_trigger_match`)."""
        fields = [each.signature for each in (*self.vals, *self.vars, *self.keys)]
        sort = []
        shown = [*self.vals, *self.keys]
        for each in self.sort:
            at = -1 if each.field is None else shown.index(each.field)
            sort.append((at, each.descending))
        return (len(self.vals), *fields, *sort, *(each.signature for each in self.actions))

    def variable(self, name: str) -> HistField | None:
        """Return the variable `name` of the definition (`find_var_field`)."""
        return next((each for each in self.vars if each.var == name), None)

    @property
    def text(self) -> str:
        """The definition, as the file `trigger` shows it without the filter."""
        parts = [f"hist:{f'{self.name}:' if self.name else ''}keys={_joined(self.keys)}"]
        parts.append(",".join([f"vals={HITCOUNT}", *(each.text for each in self.vals)]))
        if self.vars:
            parts.append(_joined(self.vars))
        parts.append(f"sort={','.join(each.text for each in self.sort)}")
        parts.append(f"size={self.size}")
        if self.timestamps:
            parts.append(f"clock={self.clock}")
        return ":".join([*parts, *(each.text for each in self.actions)])


def _joined(fields: Sequence[HistField]) -> str:
    return ",".join(each.text for each in fields)
