"""The files `filter` of events and of their systems; source: kernel/trace/trace_events_filter.c."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ... import abi
from ...abi import FilterKind
from ...errors import TracefsError
from ...events.fields import Field
from ...events.filter import BAD_SYSTEM, MOST_CHARACTERS, FilterError, Test, parse_filter
from ...memento import Restore, attributes
from ..errorlog import ErrorLog
from ..tree import File
from .eventfile import EventFiles

_PARSER = "event filter parse error"
"""Name of the parser in error_log."""
_NO_REASON = "Error"

_SYSTEM_HELP = """### global filter ###
# Use this to set filters for multiple events.
# Only events with the given fields will be affected.
# If no events are modified, an error message will be displayed here
"""


def stored(files: EventFiles, tests: Sequence[Test]) -> int:
    """Store the tests of a filter in the guest; return their address."""
    layout = abi.filter_pred(files.memory.byteorder)
    table = np.zeros(len(tests), layout)
    strings = b""
    room = table.nbytes
    where: dict[int, int] = {}
    for row, test in enumerate(tests):
        table[row] = (
            *(test.kind, test.op, test.offset, test.size, test.signed),
            *(test.on_true, test.on_false, test.invert, test.value, 0),
        )
        if test.kind not in (FilterKind.NUMBER, FilterKind.CPU):
            where[row] = room + len(strings)
            strings += test.pattern + b"\0"
    address = files.blocks.place(table.tobytes() + strings)
    for row, offset in where.items():
        table["pattern"][row] = address + offset
    files.memory.write(address, table.tobytes())
    return address


class EventFilter:
    """The filter of one event: its text, which may be invalid, and its tests in the guest."""

    def __init__(self, files: EventFiles, number: int, fields: Sequence[Field]) -> None:
        self._files = files
        self._number = number
        self.fields = fields
        """The fields that tests may use."""
        self.text = ""
        """What the file shows; empty for no filter."""
        self._address = 0

    def set(self, text: str, reason: str | None = None) -> None:
        """Use the filter `text`; `0` removes it.

        An invalid filter is shown with its error, or with `reason` if given, and lets all events
        pass. Raises `TracefsError` (EINVAL).
        """
        if not self._files.has(self._number):
            raise TracefsError(errno.ENOSPC, "Too many events have filters")
        if text.strip() == "0":
            self._put("", ())
            return
        try:
            tests = parse_filter(text, self.fields)
        except FilterError as error:
            shown = error if reason is None else FilterError(reason)
            self._put(shown.text(text), ())
            log_refusal(self._files.errors, shown, text)
            raise TracefsError(errno.EINVAL) from None
        self._put(text, tests)

    def save(self) -> Restore:
        """Return a function that restores the filter; the machine saves its tests."""
        return attributes(self, "text", "_address")

    def _put(self, text: str, tests: Sequence[Test]) -> None:
        self._files.settle()
        address = stored(self._files, tests) if tests else 0
        self._files.set(self._number, "filter", address)
        if self._address:
            self._files.blocks.free(self._address)
        self.text, self._address = text, address


def log_refusal(log: ErrorLog, error: FilterError, text: str) -> None:
    """Explain in `log` why the filter `text` was refused (`append_filter_err`)."""
    place = 0 if error.reason is None else min(error.at, len(text))
    log.add(_PARSER, text, error.reason or _NO_REASON, place)


class Filtered(Protocol):
    """An event, as far as the filter of its system needs it."""

    @property
    def filter(self) -> EventFilter:
        """Its filter."""
        ...


class FilterFile(File):
    """The filter of one event."""

    mode = 0o640

    def __init__(self, chosen: EventFilter) -> None:
        self._filter = chosen

    def read(self) -> str:
        """Return the filter, `none`, or an invalid filter and its error."""
        return f"{self._filter.text or 'none'}\n"

    def write(self, text: str) -> None:
        """Set the filter, or remove it with `0`."""
        self._filter.set(_taken(text))


class SystemFilterFile(File):
    """The filter of all events of a system that have its fields."""

    mode = 0o640

    def __init__(self, events: Sequence[Filtered], texts: dict[str, str], group: str) -> None:
        """`texts` keeps the content of the file, by system."""
        self._events = events
        self._texts = texts
        self._group = group

    def read(self) -> str:
        """Return the help, or the error of the last filter."""
        return self._texts.get(self._group, _SYSTEM_HELP)

    def write(self, text: str) -> None:
        """Set the filter of each event that has the fields.

        An event without them loses its filter, and its file says why. Raises `TracefsError`
        (EINVAL) if no event has them.
        """
        text = _taken(text)
        self._texts.pop(self._group, None)
        done = False
        for event in self._events:
            try:
                event.filter.set(text, BAD_SYSTEM)
                done = True
            except TracefsError:
                continue
        if not done:
            self._texts[self._group] = f"{FilterError(BAD_SYSTEM).text(text)}\n"
            raise TracefsError(errno.EINVAL)


def _taken(text: str) -> str:
    """Return `text` without its newline. Raises `TracefsError` (EINVAL) if too long."""
    if len(text) >= MOST_CHARACTERS:
        raise TracefsError(errno.EINVAL)
    return text.strip()
