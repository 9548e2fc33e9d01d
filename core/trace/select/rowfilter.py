"""Filters of a trace: words that choose events by function, task and CPU.

A word is `func:GLOB`, `task:GLOB` for a task's name, `task:N` or `pid:N`, or `cpu:N`.
Numbers may be a list with ranges, `0,2-3`. A bare word chooses functions: by a glob, or,
without wildcards, by a part of their names. A word with `!` in front excludes events. An
event is shown if it matches a word of each kind (function, task, CPU) that has words, and no
word with `!`. Globs are those of set_ftrace_filter.

Each name is matched once, by address or by pid, and gives a mask over the columns of the
table, so any filter takes the time of a few passes over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ...errors import UsageError
from ...ftrace.filter import Glob, NameTable
from ..buffer.details import EVENT, SYSCALL
from ..buffer.events import EventTable
from ..text.textcontext import TextContext

Mask: TypeAlias = NDArray[np.bool_]

KINDS = ("func", "task", "pid", "cpu")

_NUMBERS = re.compile(r"\d{1,20}(-\d{1,20})?(,\d{1,20}(-\d{1,20})?)*", re.ASCII)
_MOST_PID = 2**31 - 1


class FilterError(UsageError):
    """An invalid filter; `word` is the invalid word."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


class UnknownKind(FilterError):
    """A word of an unknown kind."""

    def __init__(self, word: str, kind: str) -> None:
        super().__init__(
            word, f"unknown kind '{kind}:' in {word} (choose from: func:, task:, pid:, cpu:)"
        )


class BadNumber(FilterError):
    """A word that needs numbers, but has other text."""

    def __init__(self, word: str) -> None:
        super().__init__(word, f"{word} needs numbers, such as 2 or 0,2-3")


class NoPattern(FilterError):
    """A word with a kind but no value."""

    def __init__(self, word: str) -> None:
        super().__init__(word, f"{word} needs a value, such as func:vfs_* or cpu:0")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `kind` is func, task, pid or cpu; `meant` is a glob, or inclusive ranges."""

    kind: str
    meant: Glob | tuple[tuple[int, int], ...]
    remove: bool

    @classmethod
    def parse(cls, text: str) -> Word:
        """Parse a word; raises `FilterError`."""
        remove = text.startswith("!")
        kind, colon, value = text.removeprefix("!").partition(":")
        if not colon:
            kind, value = "func", kind if set(kind) & set("*?[\\") or not kind else f"*{kind}*"
        if kind not in KINDS:
            raise UnknownKind(text, kind)
        if not value:
            raise NoPattern(text)
        if kind == "task" and _NUMBERS.fullmatch(value):
            kind = "pid"
        if kind in ("func", "task"):
            return cls(kind, Glob.parse(value), remove)
        if not _NUMBERS.fullmatch(value):
            raise BadNumber(text)
        ends = [part.partition("-") for part in value.split(",")]
        ranges = [(int(low), int(high) if dash else int(low)) for low, dash, high in ends]
        if any(low > high for low, high in ranges):
            raise BadNumber(text)
        return cls(kind, tuple(ranges), remove)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter: its words, and the text they were parsed from."""

    text: str
    words: tuple[Word, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter | None:
        """Parse words separated by white space; return None for no words. Raises `FilterError`."""
        words = tuple(Word.parse(word) for word in text.split())
        return cls(" ".join(text.split()), words) if words else None

    def mask(self, table: EventTable, functions: Sequence[str], context: TextContext) -> Mask:
        """Mark the events of `table` that are shown, shape (n,).

        `functions` are the names of the table's addresses.
        """
        columns = _Columns(table, functions, context)
        shown = np.ones(len(table), np.bool_)
        # task: and pid: are one kind: both choose tasks.
        for kinds in (("func",), ("task", "pid"), ("cpu",)):
            words = [word for word in self.words if word.kind in kinds]
            wanted = [columns.matching(word) for word in words if not word.remove]
            if wanted:
                shown &= np.logical_or.reduce(wanted)
            for word in words:
                if word.remove:
                    shown &= ~columns.matching(word)
        return shown


class _Columns:
    """Matches words against the columns of a table."""

    def __init__(self, table: EventTable, functions: Sequence[str], context: TextContext) -> None:
        self._table = table
        self._functions = functions
        self._context = context
        self._names: NameTable | None = None

    def matching(self, word: Word) -> Mask:
        """Mark the events that match `word`, shape (n,)."""
        if isinstance(word.meant, Glob):
            return self._function(word.meant) if word.kind == "func" else self._task(word.meant)
        column = self._table.events[word.kind]
        met = np.zeros(len(column), np.bool_)
        most = 255 if word.kind == "cpu" else _MOST_PID
        for low, high in word.meant:
            if low == high <= most:
                met |= column == low
            elif low <= most:
                met |= (column >= low) & (column <= min(high, most))
        return met

    def _function(self, glob: Glob) -> Mask:
        """Mark events of matching functions; a stack trace belongs to the function before it."""
        events, details, context = self._table.events, self._table.details, self._context
        if self._names is None:
            self._names = _names(self._functions, context.text_prefix)
        by_address = np.zeros(len(self._functions), np.bool_)
        by_address[self._names.match(glob)] = True
        met: Mask = by_address[events["ip"]]
        called = {number: each.syscall.name for number, each in context.syscalls.items()}
        traced = {number: each.name for number, each in context.events.items()}
        for kind, known, ids in (
            (SYSCALL, called, details.calls["id"]),
            (EVENT, traced, details.records.ids),
        ):
            if len(ids):
                numbers = list(known)
                by_number = np.zeros(1 << 16, np.bool_)
                matching = _names(list(known.values())).match(glob)
                by_number[[numbers[row] for row in matching]] = True
                rows = np.flatnonzero(events["type"] == kind)
                met[rows] = by_number[ids[events["parent"][rows]]]
        if len(details.stacks):
            _as_before(met, events["cpu"], events["type"] == TraceType.STACK)
        return met

    def _task(self, glob: Glob) -> Mask:
        """Mark events of tasks with matching names, as `comm_of` returns them."""
        pid = self._table.events["pid"]
        known = {pid: comm for pid, comm in (self._context.cmdlines or {}).items() if pid > 0}
        pids = list(known)
        rows = _names(list(known.values())).match(glob)
        met: Mask = np.isin(pid, np.array([pids[row] for row in rows], np.int32))
        others: tuple[tuple[str, Callable[[], Mask]], ...] = (
            ("<idle>", lambda: pid == 0),
            ("<XXX>", lambda: pid < 0),
            ("<...>", lambda: (pid > 0) & ~np.isin(pid, np.array(pids, np.int32))),
        )
        for name, theirs in others:
            if len(_names([name]).match(glob)):
                met |= theirs()
        return met


def _names(names: Sequence[str], prefix: str = "") -> NameTable:
    """Return names to match, without zero bytes that the guest may have written."""
    return NameTable([name.replace("\0", "\\0") for name in names], prefix)


def _as_before(met: Mask, cpu: NDArray[np.uint8], those: Mask) -> None:
    """Copy to each of `those` events the `met` of the last other event before it on its CPU."""
    order = np.argsort(cpu, kind="stable")
    place = np.where(those[order], -1, np.arange(len(cpu)))
    last = np.maximum.accumulate(place)
    same = (last >= 0) & (cpu[order][last] == cpu[order])
    met[order] = met[order][last] & same
