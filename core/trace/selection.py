"""Which rows of a trace are shown: those a filter leaves, without what lies in folded calls.

A call is folded by what its opening is known by, so it stays folded when the buffer turns.
Where a filter takes the opening away the call is shown as if it were not folded, since
nothing would say that rows are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .places import KEY

if TYPE_CHECKING:
    from .graphtext import GraphText

_nothing = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The calls that are folded, as KEY records of their openings."""

    keys: NDArray[np.void] = field(default_factory=lambda: np.empty(0, KEY))

    def __len__(self) -> int:
        return len(self.keys)

    def toggled(self, key: np.void) -> Folds:
        """With `key`, or without it where it is there."""
        there = self.keys == key
        if there.any():
            return Folds(self.keys[~there])
        return Folds(np.append(self.keys, np.array([key], KEY)))


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded call: the rows it hides, and the event of its return, -1 where there is none."""

    hides: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The rows of a text that are shown, rising; `folds` are those of folded calls among them."""

    rows: NDArray[np.intp]
    folds: NDArray[np.intp] = field(default_factory=lambda: _nothing)
    hides: NDArray[np.intp] = field(default_factory=lambda: _nothing)
    ends: NDArray[np.intp] = field(default_factory=lambda: _nothing)

    def folded(self, row: int) -> Folded | None:
        """The call that row `row` of the text stands for, None where it stands for itself."""
        at = int(np.searchsorted(self.folds, row))
        if at == len(self.folds) or self.folds[at] != row:
            return None
        return Folded(int(self.hides[at]), int(self.ends[at]))


def select_graph(text: GraphText, mask: NDArray[np.bool_] | None, folds: Folds) -> Selection:
    """The rows of a graph whose events `mask` shows, all without one, less those in `folds`."""
    shown = np.ones(len(text.table), np.bool_) if mask is None else mask
    passing = shown[text.rows]
    openings = np.unique(text.places.events(folds.keys))
    openings = openings[openings >= 0]
    openings = openings[text.opens[openings] & shown[openings]]
    own = text.own_rows(openings)
    openings, own = openings[own >= 0], own[own >= 0]
    if not len(openings):
        return Selection(np.flatnonzero(passing))
    calls = text.calls
    stops, ends = calls.ends(openings)
    inside = calls.inside(openings, stops)
    # A box around a switch is of its CPU, not of the call: what is below it must not seem
    # to be of the task above.
    hidden = inside[text.rows] & ~text.boxed
    folded = np.zeros(len(text.table), np.bool_)
    folded[openings] = True
    arrows = folded[text.rows] & text.arrows
    hidden |= arrows
    hidden &= passing
    weights = np.bincount(text.rows[hidden], minlength=len(text.table))
    sums = calls.sums(weights)
    hides = sums[stops] - sums[calls.at(openings) + 1]
    hides += np.bincount(text.rows[arrows & hidden], minlength=len(text.table))[openings]
    there = ~hidden[own]
    return Selection(np.flatnonzero(passing & ~hidden), own[there], hides[there], ends[there])
