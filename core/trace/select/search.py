"""Search for a text in the rows of a trace, upwards or downwards.

A text that can only be part of a name is searched in the names, each of which is examined
once: formatting a million rows would take seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceType
from ..buffer.details import HIT, SYSCALL
from ..text.rowmap import RowMap
from ..text.tracetext import TraceText

_BLOCK = 4096
_SEARCH_BLOCK = 1 << 18
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$")
_FLAG_CHARACTERS = frozenset("BDHLNXZbdhlnpsz.0123456789abcdef")

Rows = NDArray[np.intp]


def in_names(text: TraceText, needle: str) -> bool:
    """Return whether `needle` can only be in names and in the text of single events.

    That is in a task's name, a symbol, or the text of a marker, a dynamic event or a system
    call. Always false in a trace in which an event can have several rows.
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


def find_name(
    text: TraceText, needle: str, start: int, step: int, among: Rows | None = None
) -> int | None:
    """As `find_text`, for a `needle` that is `in_names`."""
    context, events, labels = text.context, text.table.events, text.formatter.labels
    shown = not context.options.raw
    in_name = np.array([shown and needle in name for name in labels.names], np.bool_)
    in_caller = np.array([shown and needle in name for name in labels.callers], np.bool_)
    in_text = np.array([needle in each for each in labels.texts] or [False], np.bool_)
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
        or in_caller.any()
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
        found |= function & in_caller[np.where(function, block["parent"], 0)]
        found |= printed & in_text[np.where(printed, block["parent"], 0)]
        if pids:
            found |= np.isin(block["pid"], pids)
        detailed = np.isin(block["type"], (HIT, SYSCALL))
        if in_others:
            found |= ~(function | printed | detailed)
        likely = found | detailed
        if allowed is not None:
            likely &= allowed[low:high]
        # The text of detailed events is only known after they are formatted.
        rows: list[int] = (low + np.flatnonzero(likely)[::step]).tolist()
        for row in rows:
            if found[row - low] or needle in text.texts(row, row + 1)[0]:
                return row
        start = high if step > 0 else low - 1
    return None
