"""Markers A and B and the bookmarks of a trace, by the keys of their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...core.trace.select.explorer import TraceExplorer
    from ...core.trace.select.rowkey import RowKey

BOOKMARK = "◆"
"""The sign of a bookmark, in the first column of its row."""


class Marks:
    """Two markers and any number of bookmarks; their rows are looked up once for each trace."""

    def __init__(self) -> None:
        self.letters: dict[str, RowKey] = {}
        """Markers A and B, by their letters."""
        self._bookmarks: tuple[RowKey, ...] = ()
        self._trace: TraceExplorer | None = None
        self._rows: dict[RowKey, int] = {}

    @property
    def bookmarks(self) -> tuple[RowKey, ...]:
        """The bookmarks, in the order in which they were set."""
        return self._bookmarks

    @bookmarks.setter
    def bookmarks(self, keys: Iterable[RowKey]) -> None:
        self._bookmarks = tuple(dict.fromkeys(keys))
        self.look(self._trace)

    def look(self, trace: TraceExplorer | None) -> None:
        """Find the rows in `trace`."""
        self._trace = trace
        keys = [*self.letters.values(), *self._bookmarks]
        rows = trace.rows_at(keys) if trace is not None and keys else ()
        self._rows = {key: row for key, row in zip(keys, rows, strict=False) if row is not None}

    def put(self, letter: str, key: RowKey) -> None:
        """Set a marker."""
        self.letters[letter] = key
        self.look(self._trace)

    def clear(self) -> None:
        """Remove both markers."""
        self.letters.clear()
        self.look(self._trace)

    def toggle(self, key: RowKey) -> bool:
        """Set a bookmark, or remove it; return whether it is set now."""
        there = key not in self._bookmarks
        rest = tuple(each for each in self._bookmarks if each != key)
        self.bookmarks = (*rest, key) if there else rest
        return there

    def row_of(self, letter: str) -> int | None:
        """Return the row of a marker; None if it is not set or its event has left the buffer."""
        key = self.letters.get(letter)
        return None if key is None else self._rows.get(key)

    def bookmarked(self) -> list[int]:
        """Return the rows with a bookmark, ascending."""
        return sorted({self._rows[key] for key in self._bookmarks if key in self._rows})

    def sign(self, row: int) -> str | None:
        """Return the sign for the first column of `row`, or None."""
        for letter in self.letters:
            if self.row_of(letter) == row:
                return letter
        return BOOKMARK if row in self.bookmarked() else None

    @property
    def between(self) -> int | None:
        """Time stamp at marker B minus that at A; None unless both are set."""
        if len(self.letters) < 2:
            return None
        return self.letters["B"].time - self.letters["A"].time
