"""Which rows of a trace to show: words about function, task and CPU.

A word is `func:GLOB`, `task:GLOB` for a task's name, `task:N` or `pid:N`, and `cpu:N`;
numbers may be a list with ranges, `0,2-3`. A bare word is about functions: a glob, or without
wildcards what their names contain. `!` in front takes away.
An event is shown when each kind of which there are words has one that it meets, and when
it meets none with `!`. Globs are those of set_ftrace_filter.

Names are matched once each, by address and by pid, and make masks over the columns of the
table: the time is that of a few passes over it, whatever is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..abi import TraceType
from ..errors import UsageError
from ..ftrace.filter import Glob, NameTable
from .details import SYSCALL
from .events import EventTable
from .textcontext import TextContext

Mask: TypeAlias = NDArray[np.bool_]

KINDS = ("func", "task", "pid", "cpu")

_NUMBERS = re.compile(r"\d{1,20}(-\d{1,20})?(,\d{1,20}(-\d{1,20})?)*", re.ASCII)
_MOST_PID = 2**31 - 1


class FilterError(UsageError):
    """A filter of rows that makes no sense, because of its word `word`."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


class UnknownKind(FilterError):
    """A word of a kind that there is not."""

    def __init__(self, word: str, kind: str) -> None:
        super().__init__(word, f"{word}: there is no {kind}:, only func:, task:, pid: and cpu:")


class BadNumber(FilterError):
    """A word that needs numbers and has none."""

    def __init__(self, word: str) -> None:
        super().__init__(word, f"{word}: numbers are needed, such as 2 or 0,2-3")


class NoPattern(FilterError):
    """A word that says a kind and no more."""

    def __init__(self, word: str) -> None:
        super().__init__(word, f"{word}: something is needed behind it")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `kind` is func, task, pid or cpu; `meant` a glob, or ranges with both ends."""

    kind: str
    meant: Glob | tuple[tuple[int, int], ...]
    remove: bool

    @classmethod
    def parse(cls, text: str) -> Word:
        """Read a word; raises `FilterError`."""
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
    """The words, and the text they were read from."""

    text: str
    words: tuple[Word, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter | None:
        """Read words split by white space; None where there is none. Raises `FilterError`."""
        words = tuple(Word.parse(word) for word in text.split())
        return cls(" ".join(text.split()), words) if words else None

    def mask(self, table: EventTable, functions: Sequence[str], context: TextContext) -> Mask:
        """Which of the table's n events are shown, shape (n,).

        `functions` are the names of the table's addresses.
        """
        columns = _Columns(table, functions, context)
        shown = np.ones(len(table), np.bool_)
        # A task is named or numbered: both words are about the task.
        for kinds in (("func",), ("task", "pid"), ("cpu",)):
            words = [word for word in self.words if word.kind in kinds]
            wanted = [columns.met(word) for word in words if not word.remove]
            if wanted:
                shown &= np.logical_or.reduce(wanted)
            for word in words:
                if word.remove:
                    shown &= ~columns.met(word)
        return shown


class _Columns:
    """Which events meet a word."""

    def __init__(self, table: EventTable, functions: Sequence[str], context: TextContext) -> None:
        self._table = table
        self._functions = functions
        self._context = context
        self._names: NameTable | None = None

    def met(self, word: Word) -> Mask:
        """Shape (n,)."""
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
        """Events of functions; a stack is one of the function that it leads to."""
        events, details, context = self._table.events, self._table.details, self._context
        if self._names is None:
            self._names = _names(self._functions, context.text_prefix)
        by_address = np.zeros(len(self._functions), np.bool_)
        by_address[self._names.match(glob)] = True
        met: Mask = by_address[events["ip"]]
        if len(details.calls):
            numbers = list(context.syscalls)
            names = _names([context.syscalls[number].syscall.name for number in numbers])
            by_number = np.zeros(1 << 16, np.bool_)
            by_number[[numbers[row] for row in names.match(glob)]] = True
            rows = np.flatnonzero(events["type"] == SYSCALL)
            met[rows] = by_number[details.calls["id"][events["parent"][rows]]]
        if len(details.stacks):
            _as_before(met, events["cpu"], events["type"] == TraceType.STACK)
        return met

    def _task(self, glob: Glob) -> Mask:
        """Events of tasks with such names, as `comm_of` has them."""
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
    """Names to match; the guest may have put a zero byte into one."""
    return NameTable([name.replace("\0", "\\0") for name in names], prefix)


def _as_before(met: Mask, cpu: NDArray[np.uint8], those: Mask) -> None:
    """Let `those` events be as the last other event before them on their CPU."""
    order = np.argsort(cpu, kind="stable")
    place = np.where(those[order], -1, np.arange(len(cpu)))
    last = np.maximum.accumulate(place)
    same = (last >= 0) & (cpu[order][last] == cpu[order])
    met[order] = met[order][last] & same
