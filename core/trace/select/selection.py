"""Which rows of a trace are shown: those that pass a filter, except inside folded calls.

A fold is stored as the key of the event that opens the call, so it survives a wrap of the
ring buffer. If a filter hides the opening, the call is shown unfolded: otherwise nothing
would show that rows are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...distinct import distinct
from ..text.columns import Fields
from ..text.graphformat import GraphFormatter
from .calls import Calls
from .eventindex import KEY, EventIndex

Mask = NDArray[np.bool_]

_nothing = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The folded calls, as KEY records of their openings."""

    keys: NDArray[np.void] = field(default_factory=lambda: np.empty(0, KEY))

    def __len__(self) -> int:
        return len(self.keys)

    def toggled(self, key: np.void) -> Folds:
        """Return the folds with `key` added, or removed if it was among them."""
        there = self.keys == key
        if there.any():
            return Folds(self.keys[~there])
        return Folds(np.append(self.keys, np.array([key], KEY)))


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded call."""

    hides: int
    """Number of rows that it hides."""
    end: int
    """The event of its return, -1 if the table does not have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The rows of a trace that are shown, ascending."""

    rows: NDArray[np.intp]
    folds: NDArray[np.intp] = field(default_factory=lambda: _nothing)
    """The rows that open a folded call, ascending."""
    hides: NDArray[np.intp] = field(default_factory=lambda: _nothing)
    """`Folded.hides` of each row of `folds`."""
    ends: NDArray[np.intp] = field(default_factory=lambda: _nothing)
    """`Folded.end` of each row of `folds`."""

    def folded(self, row: int) -> Folded | None:
        """Return the call that is folded into `row`, or None."""
        at = int(np.searchsorted(self.folds, row))
        if at == len(self.folds) or self.folds[at] != row:
            return None
        return Folded(int(self.hides[at]), int(self.ends[at]))


class Folding:
    """Folds calls of a function graph. `mask` below marks events that pass a filter."""

    def __init__(self, formatter: GraphFormatter, index: EventIndex) -> None:
        rows = formatter.rows
        self._formatter = formatter
        self._rows = rows
        self._index = index
        self._calls = Calls(formatter.table.events, rows.depth, rows.opens, rows.in_graph)

    def toggled(self, folds: Folds, row: int, mask: Mask | None) -> tuple[Folds, int] | None:
        """Fold or unfold the innermost call around `row` whose opening is shown.

        Return the new folds and the row of the opening, or None if no such call exists.
        """
        if self._rows.boxed[row]:
            # A box belongs to its CPU: the task that it switches to may be in a folded call.
            return None
        opening = self._calls.opening(int(self._rows.events[row]))
        shown = self._shown_openings(mask)
        while opening is not None and not shown[opening]:
            opening = self._calls.caller(opening)
        if opening is None:
            return None
        events = np.array([opening])
        return folds.toggled(self._index.keys(events)[0]), int(self._rows.own_rows(events)[0])

    def outermost(self, mask: Mask | None) -> Folds:
        """Return the outermost calls among those whose opening is shown."""
        return Folds(self._index.keys(self._calls.outermost(self._shown_openings(mask))))

    def _shown_openings(self, mask: Mask | None) -> Mask:
        """Mark the events that open a call and have a row that is shown."""
        rows = self._rows
        shown = np.zeros(len(rows.opens), np.bool_)
        shown[rows.events[rows.parts == rows.OWN]] = True
        shown &= rows.opens
        return shown if mask is None else shown & mask

    def fields(self, row: int, folded: Folded) -> Fields:
        """Return the fields of the row that stands for the call that `row` opens."""
        return self._formatter.folded(int(self._rows.events[row]), folded.hides, folded.end)

    def select(self, mask: Mask | None, folds: Folds) -> Selection:
        """Return the rows to show: the rows of events in `mask`, except inside folded calls."""
        rows, calls = self._rows, self._calls
        count = len(rows.opens)
        shown = np.ones(count, np.bool_) if mask is None else mask
        passing = shown[rows.events]
        openings = distinct(self._index.events(folds.keys))
        openings = openings[openings >= 0]
        openings = openings[rows.opens[openings] & shown[openings]]
        own = rows.own_rows(openings)
        openings, own = openings[own >= 0], own[own >= 0]
        if not len(openings):
            return Selection(np.flatnonzero(passing))
        stops, ends = calls.ends(openings)
        inside = calls.inside(openings, stops)
        # A box around a switch belongs to its CPU, not to the call: without the box, the
        # rows below it would seem to belong to the task above it.
        hidden = inside[rows.events] & ~rows.boxed
        folded = np.zeros(count, np.bool_)
        folded[openings] = True
        arrows = folded[rows.events] & rows.arrows
        hidden |= arrows
        hidden &= passing
        weights = np.bincount(rows.events[hidden], minlength=count)
        sums = calls.sums(weights)
        hides = sums[stops] - sums[calls.at(openings) + 1]
        hides += np.bincount(rows.events[arrows & hidden], minlength=count)[openings]
        there = ~hidden[own]
        return Selection(np.flatnonzero(passing & ~hidden), own[there], hides[there], ends[there])
