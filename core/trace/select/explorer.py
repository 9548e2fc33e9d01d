"""Tools to explore a trace: search, filter, fold, and find rows again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..buffer.timetext import exact_time
from ..text.columns import Fields
from ..text.graphformat import GraphFormatter
from ..text.tracetext import TraceText
from .eventindex import KEY, EventIndex
from .filterwords import filter_words
from .rowfilter import Mask, RowFilter
from .rowkey import RowKey
from .search import find_all, find_name, find_text, in_names
from .selection import Folded, Folding, Folds, Selection

MOST_FORMATTED = 50_000
"""Maximum rows to format for all matches of a search; more would take seconds."""


class TraceExplorer:
    """Explores a trace. A `row` is a row of `text`; `among` limits a search to some rows."""

    def __init__(self, text: TraceText) -> None:
        self.text = text
        self.table = text.table

    def __len__(self) -> int:
        """Return the number of rows, hidden or not."""
        return len(self.text)

    @property
    def written(self) -> int:
        """Events written since the buffers were last cleared, overwritten ones included."""
        return self.text.context.written

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns; the clock `counter` gives plain numbers."""
        return self.text.context.clock_in_ns

    # One row

    def event(self, row: int) -> int:
        """Return the event of `row`."""
        return self._event_and_part(row)[0]

    def _event_and_part(self, row: int) -> tuple[int, int]:
        events, parts = self.text.rows.of(np.array([row]))
        return int(events[0]), int(parts[0])

    def time(self, row: int) -> int:
        """Return the time stamp of the event of `row`: virtual ns, or a plain number."""
        return int(self.table.events["ts"][self.event(row)])

    def row_near(self, time: int) -> int | None:
        """Return a row of the event nearest to `time`; None if it has none."""
        times = self.table.events["ts"]
        if not len(times):
            return None
        at = int(np.searchsorted(times, np.uint64(time)))
        near = range(max(at - 1, 0), min(at + 1, len(times)))
        event = min(near, key=lambda each: abs(int(times[each]) - time))
        return self.text.rows.row_at(event, 0)

    def site(self, row: int) -> int | None:
        """Return rec.ip of the call site that made the event of `row`, or None."""
        number, part = self._event_and_part(row)
        event = self.table.events[number]
        if part != self.text.rows.OWN or event["type"] not in self.text.rows.SITES:
            return None
        return int(self.table.addresses[event["ip"]])

    def hit(self, row: int) -> str | None:
        """Return time and CPU of the last event up to `row` that saved registers, or None.

        They identify the event as long as it is in the buffer (command `regs hit`).
        """
        found = self.table.last_hit(self.event(row) + 1)
        return None if found is None else self._moment(found)

    def moment(self, row: int) -> str:
        """Return time and CPU of the event of `row`, for the command `goto`."""
        return self._moment(self.event(row))

    def _moment(self, number: int) -> str:
        event = self.table.events[number]
        return f"{exact_time(int(event['ts']), self.clock_in_ns)} {event['cpu']}"

    # Rows in a later trace

    @cached_property
    def index(self) -> EventIndex:
        """The keys of the events."""
        return EventIndex(self.table)

    def key(self, row: int) -> RowKey:
        """Return the key that finds `row` in a later trace of the same buffers."""
        event, part = self._event_and_part(row)
        time, cpu, ip, nth = self.index.keys(np.array([event])).tolist()[0]
        return RowKey(time, cpu, ip, nth, part)

    def rows_at(self, keys: Sequence[RowKey]) -> list[int | None]:
        """Return the row of each key, or another row of its event; None if the event is gone."""
        events = self.index.events(np.array([key[:4] for key in keys], KEY)).tolist()
        return [
            None if event < 0 else self.text.rows.row_at(event, key.part)
            for event, key in zip(events, keys, strict=True)
        ]

    # Searching

    def find(
        self, needle: str, start: int, step: int, among: NDArray[np.intp] | None = None
    ) -> int | None:
        """Return the next row from `start` on whose text contains `needle`, or None.

        `step` is 1 or -1; `among` are rows, ascending.
        """
        if not needle or not 0 <= start < len(self):
            return None
        find = find_name if in_names(self.text, needle) else find_text
        return find(self.text, needle, start, step, among)

    def find_all(
        self, needle: str, among: NDArray[np.intp] | None = None, most: int = MOST_FORMATTED
    ) -> NDArray[np.intp] | None:
        """Return all rows whose text contains `needle`, ascending; `among` as for `find`.

        Return None if more than `most` rows had to be formatted for it.
        """
        return find_all(self.text, needle, among, most) if needle else np.empty(0, np.intp)

    def next_call(self, ip: int, start: int, among: NDArray[np.intp] | None = None) -> int | None:
        """Return the next row, from `start` on, of a call of the site `ip`, or None."""
        known = np.flatnonzero(self.table.addresses == np.uint64(ip))
        if not len(known):
            return None
        rows = np.arange(len(self)) if among is None else among
        rows = rows[np.searchsorted(rows, start) :]
        numbers, parts = self.text.rows.of(rows)
        events = self.table.events[numbers]
        calls = (parts == self.text.rows.OWN) & (events["ip"] == known[0])
        calls &= np.isin(events["type"], self.text.rows.CALLS)
        found = rows[calls]
        return int(found[0]) if len(found) else None

    # Filtering and folding

    def select(self, only: RowFilter | None, folds: Folds | None = None) -> Selection:
        """Return the rows to show: those that pass `only`, with each call of `folds` as one row."""
        mask = self._mask(only)
        if self._folding is not None:
            return self._folding.select(mask, folds or Folds())
        rows = np.arange(len(self))
        if mask is None:
            return Selection(rows)
        return Selection(np.flatnonzero(mask[self.text.rows.of(rows)[0]]))

    def fold(
        self, folds: Folds | None, row: int, only: RowFilter | None = None
    ) -> tuple[Folds, int] | None:
        """Fold or unfold the innermost call around `row` whose opening passes `only`.

        Return the new folds and the row of the opening, or None if no such call exists.
        """
        if self._folding is None:
            return None
        return self._folding.toggled(folds or Folds(), row, self._mask(only))

    def fold_all(self, only: RowFilter | None = None) -> Folds:
        """Return the outermost calls whose opening passes `only`."""
        return Folds() if self._folding is None else self._folding.outermost(self._mask(only))

    def folded_fields(self, row: int, folded: Folded) -> Fields:
        """Return the fields of the row that stands for the folded call that `row` opens."""
        return () if self._folding is None else self._folding.fields(row, folded)

    @cached_property
    def _folding(self) -> Folding | None:
        formatter = self.text.formatter
        return Folding(formatter, self.index) if isinstance(formatter, GraphFormatter) else None

    def _mask(self, only: RowFilter | None) -> Mask | None:
        """Mark the events that pass `only`; None if all do."""
        if only is None:
            return None
        return only.mask(self.table, self.text.formatter.labels.functions, self.text.context)

    def filter_words(self, row: int | None) -> list[str]:
        """Return words for a filter: first the words of `row`, then those of all events."""
        return filter_words(self.text, None if row is None else self.event(row))
