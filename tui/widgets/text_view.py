"""A pane of ready lines: call site, trampoline, output, report."""

from __future__ import annotations

from collections.abc import Sequence

from ..spans import Line, plain
from .rows import Rows


class TextView(Rows):
    """Shows lines as they are; scrolls when there are more than fit."""

    def __init__(
        self, lines: Sequence[Line] = (), *, id: str | None = None, empty: str = ""
    ) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = lines
        self._empty = ((empty, "dim"),)

    def on_mount(self) -> None:
        """Measure what was given at the start."""
        self.changed()

    def show(self, lines: Sequence[Line]) -> None:
        """Show other lines, scrolled as before as far as they reach."""
        if lines != self._lines:
            self._lines = lines
            self.changed()

    def count(self) -> int:
        """Lines there are."""
        return max(len(self._lines), 1)

    def row_width(self) -> int:
        """The longest line."""
        return max((len(plain(line)) for line in self._lines), default=0)

    def line(self, row: int, width: int) -> Line:
        """Line `row`."""
        return self._lines[row] if self._lines else self._empty
