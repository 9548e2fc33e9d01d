"""The ways to functions that events of stacks tell, in one table.

Each has any number of addresses; they lie one behind the other in `callers`, and
`starts` says where each event's begin, and the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """The addresses of n events: `starts` has shape (n + 1,), rising from 0."""

    starts: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, np.intp))
    callers: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.intp]:
        """How many addresses each event has."""
        return np.diff(self.starts)

    def row(self, row: int) -> NDArray[np.uint64]:
        """The addresses of one event, the innermost first."""
        return self.callers[self.starts[row] : self.starts[row + 1]]

    def cut(self, rows: slice) -> Stacks:
        """Only these rows, which follow each other."""
        start, stop, _ = rows.indices(len(self))
        starts = self.starts[start : max(start, stop) + 1]
        return Stacks(starts - starts[0], self.callers[starts[0] : starts[-1]])

    @classmethod
    def joined(cls, parts: Sequence[Stacks]) -> Stacks:
        """The rows of all, one part behind the other."""
        lengths = [each.lengths for each in parts]
        starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(np.concatenate(lengths))])
        return cls(starts, np.concatenate([each.callers for each in parts]))
