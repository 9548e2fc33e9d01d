"""Search for a text in the rows of a trace, upwards or downwards.

A text that can only be part of a name is searched in the names, each of which is examined
once: formatting a million rows would take seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ..buffer.details import EVENT as TRACE_EVENT
from ..buffer.details import HIT, SYSCALL
from ..buffer.events import EVENT
from ..text.rowmap import RowMap
from ..text.tracetext import TraceText

_BLOCK = 4096
_SEARCH_BLOCK = 1 << 16
_IP = EVENT["ts"].itemsize
"""Offset of `ip` in an event; `parent` follows."""
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$")
_FLAG_CHARACTERS = frozenset("BDHLNXZbdhlnpsz.0123456789abcdef")

Rows = NDArray[np.intp]


def in_names(text: TraceText, needle: str) -> bool:
    """Return whether `needle` can only be in names and in the text of single events.

    These are the names of tasks, symbols, and the texts of markers, dynamic events and system
    calls. The result is False for a trace in which an event can have several rows.
    """
    letters = set(needle)
    plain = isinstance(text.rows, RowMap) and len(text) == len(text.table)
    plain &= not text.context.options.hex
    return plain and letters <= _NAME_CHARACTERS and bool(letters - _FLAG_CHARACTERS)


def find_text(
    text: TraceText, needle: str, start: int, step: int, among: Rows | None = None
) -> int | None:
    """Return the next row from `start` on whose text contains `needle`, or None.

    `step` is 1 or -1; `among` are the rows to look at, ascending, None for all.
    """
    rows = np.arange(len(text)) if among is None else among
    at = int(np.searchsorted(rows, start, "left" if step > 0 else "right")) - (step < 0)
    while 0 <= at < len(rows):
        low, high = (at, at + _BLOCK) if step > 0 else (at + 1 - _BLOCK, at + 1)
        low, high = max(low, 0), min(high, len(rows))
        block = rows[low:high]
        texts = zip(block.tolist(), text.texts_at(block), strict=True)
        found = [row for row, each in texts if needle in each]
        if found:
            return int(found[0] if step > 0 else found[-1])
        at = high if step > 0 else low - 1
    return None


class _Marks:
    """A set of small numbers; false if it is empty."""

    def __init__(self, marked: list[bool]) -> None:
        self._mask = np.array(marked or [False], np.bool_)
        self._numbers = np.flatnonzero(self._mask)

    def __bool__(self) -> bool:
        return len(self._numbers) > 0

    @property
    def only(self) -> int | None:
        """The number, if there is one only."""
        return int(self._numbers[0]) if len(self._numbers) == 1 else None

    def of(self, numbers: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """Return which of `numbers` are in it; one beyond `marked` can be in it or not."""
        if not self:
            return np.zeros(len(numbers), np.bool_)
        if self.only is not None:  # to compare takes half the time of a look-up
            same: NDArray[np.bool_] = numbers == numbers.dtype.type(self.only)
            return same
        return self._mask.take(numbers, mode="clip")


class _Names:
    """The events that can contain `needle`, which is `in_names`; each name is examined once."""

    def __init__(self, text: TraceText, needle: str, among: Rows | None) -> None:
        context, labels = text.context, text.formatter.labels
        shown = not context.options.raw
        self._events = text.table.events
        self._in_name = _Marks([shown and needle in name for name in labels.names])
        self._in_caller = _Marks([shown and needle in name for name in labels.callers])
        self._in_text = _Marks([needle in each for each in labels.texts])
        pids: list[int] = []
        if shown and context.options.context_info:
            names = (context.cmdlines or {}).items()
            pids = [pid for pid, comm in names if pid > 0 and needle in comm]
            pids += [0] if needle in "<idle>" else []
        self._pids = np.array(pids, np.int32)
        self._in_others = needle in "Unknown type"
        # Events of these types can contain the needle although none of their names does.
        by_type = [self._in_others] * (np.iinfo(np.uint8).max + 1)
        by_type[TraceType.FN], by_type[TraceType.PRINT] = False, bool(self._in_text)
        details = text.table.details
        for kind, rows in (
            (HIT, details.hits),
            (SYSCALL, details.calls),
            (TRACE_EVENT, details.records),
        ):
            by_type[kind] = len(rows) > 0
        self._by_type = _Marks(by_type)
        self._allowed: NDArray[np.bool_] | None = None
        if among is not None:
            self._allowed = np.zeros(len(text), np.bool_)
            self._allowed[among] = True

    def block(self, low: int, high: int) -> tuple[Rows, NDArray[np.bool_]]:
        """Return rows that can contain the text, ascending, and which of them surely do.

        The others must be formatted to find out.
        """
        events = self._events[low:high]
        able = self._named(events)
        if self._by_type:  # often empty; each column that is read takes time
            able |= self._by_type.of(events["type"])
        if len(self._pids):
            able |= np.isin(events["pid"], self._pids)
        if self._allowed is not None:
            able &= self._allowed[low:high]
        rows = np.flatnonzero(able)
        if not len(rows):
            return rows, able[rows]
        # The rest is only for the few remaining rows.
        events = events[rows]
        kinds = events["type"]
        function, printed = kinds == TraceType.FN, kinds == TraceType.PRINT
        found = (function | printed) & self._in_name.of(events["ip"])
        found |= function & self._in_caller.of(events["parent"])
        found |= printed & self._in_text.of(events["parent"])
        found |= np.isin(events["pid"], self._pids)
        detailed = np.isin(kinds, (HIT, SYSCALL, TRACE_EVENT))
        if self._in_others:
            found |= ~(function | printed | detailed)
        able = found | detailed
        return low + rows[able], found[able]

    def _named(self, events: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which of `events`, EVENT records, have a marked name or caller."""
        only = self._in_name.only
        if only is not None and only == self._in_caller.only:
            # One function: its number is looked for in both columns at once.
            both = events.getfield(np.uint64, _IP).copy().view(np.uint32)
            either: NDArray[np.bool_] = (both == np.uint32(only)).view(np.uint16) != 0
            return either
        named = self._in_name.of(events["ip"])
        if self._in_caller:
            named |= self._in_caller.of(events["parent"])
        return named


def find_name(
    text: TraceText, needle: str, start: int, step: int, among: Rows | None = None
) -> int | None:
    """Like `find_text`, for a `needle` that is `in_names`."""
    names = _Names(text, needle, among)
    while 0 <= start < len(text):
        low, high = (
            (start, start + _SEARCH_BLOCK) if step > 0 else (start + 1 - _SEARCH_BLOCK, start + 1)
        )
        low, high = max(low, 0), min(high, len(text))
        rows, sure = names.block(low, high)
        for row, found in zip(rows[::step].tolist(), sure[::step].tolist(), strict=True):
            if found or needle in text.texts(row, row + 1)[0]:
                return int(row)
        start = high if step > 0 else low - 1
    return None


def find_all(text: TraceText, needle: str, among: Rows | None, most: int) -> Rows | None:
    """Return all rows whose text contains `needle`, ascending.

    `among` are the rows to look at, ascending, None for all. Return None if more than `most`
    rows had to be formatted for it.
    """
    if not in_names(text, needle):
        rows = np.arange(len(text)) if among is None else among
        return None if len(rows) > most else _containing(text, needle, rows)
    names, parts = _Names(text, needle, among), [np.empty(0, np.intp)]
    for low in range(0, len(text), _SEARCH_BLOCK):
        rows, sure = names.block(low, low + _SEARCH_BLOCK)
        most -= int(np.count_nonzero(~sure))
        if most < 0:
            return None
        parts += [rows[sure], _containing(text, needle, rows[~sure])]
    return np.sort(np.concatenate(parts))


def _containing(text: TraceText, needle: str, rows: Rows) -> Rows:
    """Return those of `rows` whose text contains `needle`."""
    hit = np.array([needle in each for each in text.texts_at(rows)], np.bool_)
    return rows[hit] if len(rows) else rows
