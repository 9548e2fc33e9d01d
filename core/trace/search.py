"""Looking for a text in the lines of a trace, from a row on, up or down.

Where a text can only lie in a name, names are searched instead of lines, once each: a million
lines take seconds to make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..abi import TraceType
from .details import HIT, SYSCALL

if TYPE_CHECKING:
    from .tracetext import TraceText

_BLOCK = 4096
_SEARCH_BLOCK = 1 << 18
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$")
_FLAG_CHARACTERS = frozenset("BDHLNXZbdhlnpsz.0123456789abcdef")

Rows = NDArray[np.intp]


def in_names(text: TraceText, needle: str) -> bool:
    """Whether `needle` lies within a task's name, a symbol, a marker's text or what has a number
    of its own, and in no other field."""
    letters = set(needle)
    plain = len(text) == len(text.table) and not text.context.options.hex
    return plain and letters <= _NAME_CHARACTERS and bool(letters - _FLAG_CHARACTERS)


def find_line(
    text: TraceText, needle: str, start: int, step: int, among: Rows | None = None
) -> int | None:
    """The next row from `start` on that has `needle` in its line; `step` is 1 or -1.

    `among` are the rows to look at, rising; without it, all.
    """
    if not needle or not 0 <= start < len(text):
        return None
    rows = np.arange(len(text)) if among is None else among
    at = int(np.searchsorted(rows, start, "left" if step > 0 else "right")) - (step < 0)
    while 0 <= at < len(rows):
        low, high = (at, at + _BLOCK) if step > 0 else (at + 1 - _BLOCK, at + 1)
        low, high = max(low, 0), min(high, len(rows))
        block = rows[low:high]
        lines = zip(block.tolist(), text.lines_at(block), strict=True)
        found = [row for row, line in lines if needle in line]
        if found:
            return int(found[0] if step > 0 else found[-1])
        at = high if step > 0 else low - 1
    return None


def find_name(
    text: TraceText, needle: str, start: int, step: int, among: Rows | None = None
) -> int | None:
    """As `find_line`, for a `needle` that is `in_names`."""
    context, events = text.context, text.table.events
    shown = not context.options.raw
    in_name = np.array([shown and needle in name for name in text.names], np.bool_)
    in_parent = np.array([shown and needle in name for name in text.parents], np.bool_)
    in_text = np.array([needle in each for each in text.texts] or [False], np.bool_)
    pids: list[int] = []
    if shown and context.options.context_info:
        pids = [pid for pid, comm in (context.cmdlines or {}).items() if pid > 0 and needle in comm]
        pids += [0] if needle in "<idle>" else []
    in_others = needle in "Unknown type"
    details = text.table.details
    if not (
        len(details.hits)
        or len(details.calls)
        or in_name.any()
        or in_parent.any()
        or in_text.any()
        or pids
        or in_others
    ):
        return None
    allowed: NDArray[np.bool_] | None = None
    if among is not None:
        allowed = np.zeros(len(text), np.bool_)
        allowed[among] = True
    while 0 <= start < len(text):
        low, high = (
            (start, start + _SEARCH_BLOCK) if step > 0 else (start + 1 - _SEARCH_BLOCK, start + 1)
        )
        low, high = max(low, 0), min(high, len(text))
        block = events[low:high]
        function = block["type"] == TraceType.FN
        printed = block["type"] == TraceType.PRINT
        found = (function | printed) & in_name[block["ip"]]
        found |= function & in_parent[np.where(function, block["parent"], 0)]
        found |= printed & in_text[np.where(printed, block["parent"], 0)]
        if pids:
            found |= np.isin(block["pid"], pids)
        detailed = np.isin(block["type"], (HIT, SYSCALL))
        if in_others:
            found |= ~(function | printed | detailed)
        likely = found | detailed
        if allowed is not None:
            likely &= allowed[low:high]
        # What these say is only known when it is made.
        rows: list[int] = (low + np.flatnonzero(likely)[::step]).tolist()
        for row in rows:
            if found[row - low] or needle in text.lines(row, row + 1)[0]:
                return row
        start = high if step > 0 else low - 1
    return None
