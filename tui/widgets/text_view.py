"""A pane of ready lines: call site, trampoline, output, report."""

from __future__ import annotations

from collections.abc import Sequence

from ..spans import Line, line, plain
from .rows import Rows


class TextView(Rows):
    """Shows lines as they are; scrolls when there are more than fit."""

    def __init__(
        self, lines: Sequence[Line] = (), *, id: str | None = None, empty: str = ""
    ) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = lines
        self._empty = line((empty, "dim"))

    def on_mount(self) -> None:
        """Measure what was given at the start."""
        self.changed()

    def show(self, lines: Sequence[Line], first: int | None = None) -> None:
        """Show other lines, scrolled as before as far as they reach.

        `first` is the row to see first where the lines are about something else
        than before: they begin with another word.
        """
        if lines == self._lines:
            return
        before, self._lines = self._lines, lines
        other = _subject(before) != _subject(lines)
        self.changed(first if other else None)

    def count(self) -> int:
        """Lines there are."""
        return max(len(self._lines), 1)

    def row_width(self) -> int:
        """The longest line."""
        return max((len(plain(each)) for each in self._lines), default=0)

    def line(self, row: int, width: int) -> Line:
        """Line `row`."""
        return self._lines[row] if self._lines else self._empty


def _subject(lines: Sequence[Line]) -> str:
    """What the lines are about: how they begin."""
    return next((text for text, _ in lines[0]), "") if lines else ""
