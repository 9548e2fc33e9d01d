"""Which rows of a trace are shown, and their text: all, those of a filter, calls folded.

Rows of the list count what is shown; those of the trace, here called its lines, are what the
trace's own methods take.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..view import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...core.trace.rowfilter import RowFilter
    from ...core.trace.selection import Folded, Folds, Selection

_BLOCK = 64
_BLOCKS = 64
"""Blocks of text that are kept."""


class ShownRows:
    """A trace, a filter and the folded calls; `None` stands for none of each."""

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.only: RowFilter | None = None
        self.folds: Folds | None = None
        self._selection: Selection | None = None
        self._blocks: dict[int, Sequence[str]] = {}

    def show(self, trace: Trace | None) -> None:
        """Take a trace, or the same one again after `only` or `folds` have changed."""
        self.trace = trace
        self._blocks.clear()
        self._selection = None
        if trace is not None and (self.only is not None or self.folds):
            self._selection = trace.select(self.only, self.folds)

    def __len__(self) -> int:
        if self._selection is not None:
            return len(self._selection.rows)
        return 0 if self.trace is None else len(self.trace)

    @property
    def lines(self) -> NDArray[np.intp] | None:
        """The trace's lines that are shown, rising; None for all."""
        return None if self._selection is None else self._selection.rows

    @property
    def folded(self) -> int:
        """How many folded calls are shown."""
        return 0 if self._selection is None else len(self._selection.folds)

    def line(self, row: int) -> int:
        """The trace's line that row `row` shows."""
        return row if self._selection is None else int(self._selection.rows[row])

    def row(self, line: int) -> int:
        """The row that shows a line of the trace, else the next one below, which may be the end."""
        return line if self._selection is None else bisect_left(self._selection.rows, line)

    def shows(self, line: int) -> bool:
        """Whether a line of the trace is shown."""
        row = self.row(line)
        return row < len(self) and self.line(row) == line

    def fold_at(self, row: int) -> Folded | None:
        """The folded call that row `row` stands for."""
        return None if self._selection is None else self._selection.folded(self.line(row))

    def text(self, row: int) -> str:
        """The plain text of row `row`, formatted with its neighbours."""
        start = row - row % _BLOCK
        block = self._blocks.get(start)
        if block is None:
            if len(self._blocks) > _BLOCKS:
                self._blocks.clear()
            block = self._blocks[start] = self.texts(start, start + _BLOCK)
        return block[row - start] if row - start < len(block) else ""

    def texts(self, start: int, stop: int) -> Sequence[str]:
        """The text of rows `start` to `stop` (exclusive), as many as there are."""
        trace, selection = self.trace, self._selection
        stop = min(stop, len(self))
        if trace is None or start >= stop:
            return ()
        if selection is None:
            return trace.lines(start, stop)
        lines = selection.rows[start:stop]
        texts = list(trace.lines_at(lines))
        first = bisect_left(selection.folds, int(lines[0]))
        last = bisect_left(selection.folds, int(lines[-1]) + 1)
        for line in selection.folds[first:last].tolist():
            folded = selection.folded(line)
            if folded is not None:
                texts[self.row(line) - start] = trace.folded_line(line, folded)
        return texts

    def find(self, needle: str, line: int, step: int) -> int | None:
        """The next shown line of the trace from `line` on that contains `needle`."""
        return None if self.trace is None else self.trace.find(needle, line, step, self.lines)

    def frozen(self) -> ShownRows:
        """What is shown now, for another thread: nothing of it changes any more."""
        copy = ShownRows()
        copy.trace, copy.only, copy.folds = self.trace, self.only, self.folds
        copy._selection = self._selection
        return copy
