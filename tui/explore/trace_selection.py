"""The rows of a trace that are shown, and their text: filters and folded calls hide rows.

A *row* is the number of a row in the whole trace; an *index* is the position of a row among
those shown. Without filter and folds they are the same number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.trace.text.columns import Fields, joined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...core.trace.select.explorer import TraceExplorer
    from ...core.trace.select.rowfilter import RowFilter
    from ...core.trace.select.selection import Folds, Selection

_BLOCK = 64
"""Rows formatted at once."""

_BLOCKS = 64
"""Blocks of formatted rows in the cache."""


class ShownRows:
    """A trace, a filter and the folded calls; each may be None."""

    def __init__(self) -> None:
        self.trace: TraceExplorer | None = None
        self.only: RowFilter | None = None
        self.folds: Folds | None = None
        self._selection: Selection | None = None
        self._blocks: dict[int, Sequence[Fields]] = {}
        self._matches: tuple[str, NDArray[np.intp] | None] | None = None

    def show(self, trace: TraceExplorer | None) -> None:
        """Show `trace`; call it again with the same one after changing `only` or `folds`."""
        self.trace = trace
        self._blocks.clear()
        self._selection = self._matches = None
        if trace is not None and (self.only is not None or self.folds):
            self._selection = trace.select(self.only, self.folds)

    def __len__(self) -> int:
        if self._selection is not None:
            return len(self._selection.rows)
        return 0 if self.trace is None else len(self.trace)

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The rows that are shown, ascending; None for all."""
        return None if self._selection is None else self._selection.rows

    @property
    def folded(self) -> int:
        """Number of folded calls that are shown."""
        return 0 if self._selection is None else len(self._selection.folds)

    def row(self, index: int) -> int:
        """Return the row shown at `index`."""
        return index if self._selection is None else int(self._selection.rows[index])

    def index(self, row: int) -> int:
        """Return the index of `row`, or of the next row shown, which may be the end."""
        return row if self._selection is None else bisect_left(self._selection.rows, row)

    def shows(self, row: int) -> bool:
        """Whether `row` is shown."""
        index = self.index(row)
        return index < len(self) and self.row(index) == row

    def fields(self, index: int) -> Fields:
        """Return the fields of the row at `index`; its neighbours are formatted with it."""
        start = index - index % _BLOCK
        block = self._blocks.get(start)
        if block is None:
            if len(self._blocks) > _BLOCKS:
                self._blocks.clear()
            block = self._blocks[start] = self._format(start, start + _BLOCK)
        return block[index - start] if index - start < len(block) else ()

    def _format(self, start: int, stop: int) -> Sequence[Fields]:
        rows = self._rows(start, stop)
        if self.trace is None or rows is None:
            return ()
        found = self.trace.text.fields_at(rows)
        for at, fields in self._folded(rows):
            found[at] = fields
        return found

    def texts(self, start: int, stop: int) -> Sequence[str]:
        """Return the text of the rows at indices `start` to `stop` (exclusive) that exist."""
        rows = self._rows(start, stop)
        if self.trace is None or rows is None:
            return ()
        texts = self.trace.text.texts_at(rows)
        for at, fields in self._folded(rows):
            texts[at] = joined(fields)
        return texts

    def _rows(self, start: int, stop: int) -> NDArray[np.intp] | None:
        import numpy as np

        stop = min(stop, len(self))
        if start >= stop:
            return None
        return np.arange(start, stop) if self.rows is None else self.rows[start:stop]

    def _folded(self, rows: NDArray[np.intp]) -> Iterator[tuple[int, Fields]]:
        """Generate the fields of folded calls, with their positions in `rows`."""
        trace, selection = self.trace, self._selection
        if trace is None or selection is None:
            return
        first = bisect_left(selection.folds, int(rows[0]))
        last = bisect_left(selection.folds, int(rows[-1]) + 1)
        for row in selection.folds[first:last].tolist():
            folded = selection.folded(row)
            if folded is not None:
                yield bisect_left(rows, row), trace.folded_fields(row, folded)

    def find(self, needle: str, row: int, step: int) -> int | None:
        """Return the next row shown, from `row` on, whose text contains `needle`, or None."""
        return None if self.trace is None else self.trace.find(needle, row, step, self.rows)

    def find_all(self, needle: str) -> NDArray[np.intp] | None:
        """Return all rows shown whose text contains `needle`; None if there are too many rows."""
        if self.trace is None:
            return None
        if self._matches is None or self._matches[0] != needle:
            self._matches = needle, self.trace.find_all(needle, self.rows)
        return self._matches[1]

    def next_call(self, ip: int, row: int) -> int | None:
        """Return the next row shown, from `row` on, of a call of the site `ip`, or None."""
        return None if self.trace is None else self.trace.next_call(ip, row, self.rows)

    def frozen(self) -> ShownRows:
        """Return an immutable copy, for another thread."""
        copy = ShownRows()
        copy.trace, copy.only, copy.folds = self.trace, self.only, self.folds
        copy._selection = self._selection
        return copy
