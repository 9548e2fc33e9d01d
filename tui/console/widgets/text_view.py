"""A view of ready-made lines: call site, call path, output, report."""

from __future__ import annotations

from collections.abc import Sequence

from ...present.line import Line, Subject, line, plain
from .rows import Rows


class TextView(Rows):
    """Shows lines as they are, and scrolls if there are more than fit."""

    def __init__(
        self, lines: Sequence[Line] = (), *, id: str | None = None, empty: str = ""
    ) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = lines
        self._empty = line((empty, "dim"))

    def on_mount(self) -> None:
        """Measure the lines given at the start."""
        self.changed()

    def show(self, lines: Sequence[Line], first: int | None = None) -> None:
        """Show `lines` at the current scroll position.

        If their subject is new, scroll to row `first` instead.
        """
        if lines == self._lines:
            return
        before, self._lines = self._lines, lines
        self.changed(None if _subject(before) == _subject(lines) else first)

    def count(self) -> int:
        """Return the number of lines; at least 1, for the text of an empty view."""
        return max(len(self._lines), 1)

    def row_width(self) -> int:
        """Return the cells of the longest line."""
        return max((len(plain(each)) for each in self._lines), default=0)

    def line(self, row: int, width: int) -> Line:
        """Return line `row`."""
        return self._lines[row] if self._lines else self._empty


def _subject(lines: Sequence[Line]) -> Subject | None:
    """Return the subject of the first line."""
    return lines[0].subject if lines else None
