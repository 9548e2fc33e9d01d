"""Details of events: data that only some types of events have.

Each such type has a table: the texts of markers, the registers of fprobe hits, the times of
returns, the arguments of system calls, the addresses of stack traces. An event holds its
row in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...abi import SYSCALL_ARGS_MAX, TraceType

HIT = 0xFF
"""`type` of an fprobe's hit in tables of events."""

SYSCALL = 0xFE
"""`type` of a system call's entry or exit in tables of events."""

RECORDS = (TraceType.BPRINT, TraceType.BPUTS, TraceType.RAW_DATA)
"""The types of the tracers whose events are kept as bytes, as those of trace events."""

EVENT = 0xFD
"""`type` of a trace event of the kernel in tables of events, and of every event of a recorded
trace that has no type of its own."""

KINDS = (
    *(TraceType.PRINT, HIT, TraceType.GRAPH_RET, SYSCALL, TraceType.STACK, TraceType.CTX),
    EVENT,
)
"""The types of events with details, in the order of the tables in `Details`."""

RETURN = np.dtype(
    [("depth", "u4"), ("overrun", "u4"), ("calltime", "u8"), ("rettime", "u8"), ("retval", "u8")]
)
"""A return recorded by the graph tracer; times in ns."""

CALL = np.dtype(
    [("id", "u2"), ("nr", "i4"), ("count", "u1"), ("values", "u8", (SYSCALL_ARGS_MAX,))]
)
"""A system call's entry or exit: the type of the event, the number of the call, and `count`
values: its arguments, or its return value."""


SWITCHED = np.dtype(
    [(name, "u4") for name in ("prev_pid", "next_pid", "next_cpu")]
    + [(name, "u1") for name in ("prev_prio", "prev_state", "next_prio", "next_state", "wakeup")]
)
"""A switch from one task to another; with `wakeup`, the first task wakes up the second."""


def hit_layout(registers: int) -> np.dtype[np.void]:
    """Return the layout of an fprobe's hit: id, caller, and the given number of registers."""
    return np.dtype([("id", "u2"), ("parent", "u8"), ("regs", "u8", (registers,))])


def concatenate(tables: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Join tables of one packed dtype. numpy's own join is slow, since it copies field by field."""
    if len(tables) == 1:
        return tables[0]
    dtype = tables[0].dtype
    rows = np.dtype((np.void, dtype.itemsize))
    joined: NDArray[np.void] = np.concatenate([table.view(rows) for table in tables]).view(dtype)
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """The addresses of n stack traces, one trace after the other."""

    starts: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, np.intp))
    """Index in `callers` of each trace's start, and the end: shape (n + 1,), ascending from 0."""
    callers: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.intp]:
        """Number of addresses of each trace."""
        return np.diff(self.starts)

    def row(self, row: int) -> NDArray[np.uint64]:
        """Return the addresses of one trace, the innermost first."""
        return self.callers[self.starts[row] : self.starts[row + 1]]

    def cut(self, rows: slice) -> Stacks:
        """Return only these rows, which are consecutive."""
        start, stop, _ = rows.indices(len(self))
        starts = self.starts[start : max(start, stop) + 1]
        return Stacks(starts - starts[0], self.callers[starts[0] : starts[-1]])

    @classmethod
    def joined(cls, parts: Sequence[Stacks]) -> Stacks:
        """Return the rows of all parts, one after the other."""
        lengths = [each.lengths for each in parts]
        starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(np.concatenate(lengths))])
        return cls(starts, np.concatenate([each.callers for each in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The bytes of n trace events."""

    ids: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    """Type of each event in the ring buffer, shape (n,)."""
    starts: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    """Index in `words` of each event's start, shape (n,), ascending."""
    ends: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    """Index in `words` of each event's end (exclusive), shape (n,)."""
    words: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    """The events, and whatever is between them, as 32-bit words."""
    order: str = "<"
    """Byte order of the kernel, as numpy writes it."""

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, row: int) -> bytes:
        """Return the bytes of one event, as the kernel wrote them."""
        words = self.words[self.starts[row] : self.ends[row]]
        return words.astype(f"{self.order}u4").tobytes()

    def cut(self, rows: slice) -> Records:
        """Return only these rows, which are consecutive."""
        starts, ends = self.starts[rows], self.ends[rows]
        low, high = (starts[0], ends[-1]) if len(starts) else (0, 0)
        return Records(self.ids[rows], starts - low, ends - low, self.words[low:high], self.order)

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Return the rows of all parts, one after the other."""
        sizes = [len(each.words) for each in parts]
        before = np.cumsum([0, *sizes[:-1]])
        starts = [each.starts + at for each, at in zip(parts, before, strict=True)]
        ends = [each.ends + at for each, at in zip(parts, before, strict=True)]
        return cls(
            np.concatenate([each.ids for each in parts]),
            np.concatenate(starts),
            np.concatenate(ends),
            np.concatenate([each.words for each in parts]),
            parts[-1].order,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Details:
    """The tables; their rows are in the order of the events in the buffers."""

    texts: tuple[bytes, ...] = ()
    """Texts of markers, up to their zero byte."""
    hits: NDArray[np.void] = field(default_factory=lambda: np.empty(0, hit_layout(0)))
    """Records of `hit_layout`."""
    returns: NDArray[np.void] = field(default_factory=lambda: np.empty(0, RETURN))
    """RETURN records."""
    calls: NDArray[np.void] = field(default_factory=lambda: np.empty(0, CALL))
    """CALL records."""
    stacks: Stacks = field(default_factory=Stacks)
    """The addresses of stack traces."""
    switches: NDArray[np.void] = field(default_factory=lambda: np.empty(0, SWITCHED))
    """SWITCHED records."""
    records: Records = field(default_factory=Records)
    """The bytes of the kernel's trace events."""

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of rows of each table, in the order of `KINDS`."""
        own = (self.texts, self.hits, self.returns, self.calls)
        tables = (*own, self.stacks, self.switches, self.records)
        return np.array([len(table) for table in tables], np.intp)

    def cut(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> Details:
        """Return the rows `low` to `high` (exclusive) of each table, in the order of `KINDS`."""
        texts, hits, returns, calls, stacks, switches, records = (
            slice(int(start), int(stop)) for start, stop in zip(low, high, strict=True)
        )
        return Details(
            self.texts[texts],
            self.hits[hits],
            self.returns[returns],
            self.calls[calls],
            self.stacks.cut(stacks),
            self.switches[switches],
            self.records.cut(records),
        )

    @classmethod
    def joined(cls, parts: Sequence[Details]) -> Details:
        """Return the rows of all parts, one after the other."""
        parts = [each for each in parts if each.counts.any()] or parts[:1]
        if not parts:
            return cls()
        return cls(
            tuple(text for each in parts for text in each.texts),
            concatenate([each.hits for each in parts]),
            concatenate([each.returns for each in parts]),
            concatenate([each.calls for each in parts]),
            Stacks.joined([each.stacks for each in parts]),
            concatenate([each.switches for each in parts]),
            Records.joined([each.records for each in parts]),
        )


class Collector:
    """Collects details into tables."""

    def __init__(self, registers: int) -> None:
        self._texts: list[bytes] = []
        self._hits = [np.empty(0, hit_layout(registers))]
        self._returns = [np.empty(0, RETURN)]
        self._calls = [np.empty(0, CALL)]
        self._stacks = [Stacks()]
        self._switches = [np.empty(0, SWITCHED)]
        self._records = [Records()]

    def add_texts(self, texts: Iterable[bytes]) -> int:
        """Append texts; return the row of the first."""
        first = len(self._texts)
        self._texts.extend(texts)
        return first

    def add_hits(self, hits: NDArray[np.void]) -> int:
        """Append hits; return the row of the first."""
        self._hits.append(hits)
        return sum(map(len, self._hits[:-1]))

    def add_returns(self, returns: NDArray[np.void]) -> int:
        """Append returns; return the row of the first."""
        self._returns.append(returns)
        return sum(map(len, self._returns[:-1]))

    def add_calls(self, calls: NDArray[np.void]) -> int:
        """Append entries and exits of system calls; return the row of the first."""
        self._calls.append(calls)
        return sum(map(len, self._calls[:-1]))

    def add_stacks(self, stacks: Stacks) -> int:
        """Append stack traces; return the row of the first."""
        self._stacks.append(stacks)
        return sum(map(len, self._stacks[:-1]))

    def add_switches(self, switches: NDArray[np.void]) -> int:
        """Append switches and wakeups; return the row of the first."""
        self._switches.append(switches)
        return sum(map(len, self._switches[:-1]))

    def add_records(self, records: Records) -> int:
        """Append trace events; return the row of the first."""
        self._records.append(records)
        return sum(map(len, self._records[:-1]))

    def details(self) -> Details:
        """Return what has been added."""
        return Details(
            tuple(self._texts),
            concatenate(self._hits),
            concatenate(self._returns),
            concatenate(self._calls),
            Stacks.joined(self._stacks),
            concatenate(self._switches),
            Records.joined(self._records),
        )


def moved(events: NDArray[np.void], by: NDArray[np.intp]) -> NDArray[np.void]:
    """Return `events` with the rows of their details (field `parent`) moved by `by`.

    `by` has one number for each of `KINDS`. The result is a copy if anything changes.
    """
    changes = [(events["type"] == kind, step) for kind, step in zip(KINDS, by, strict=True) if step]
    if not any(rows.any() for rows, _ in changes):
        return events
    events = events.copy()
    for rows, step in changes:
        events["parent"][rows] += np.array(step).astype(np.uint32)
    return events
