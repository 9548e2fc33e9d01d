"""A view of ready-made lines: call site, call path, output, report."""

from __future__ import annotations

from collections.abc import Sequence

from ...present.line import Line, Subject, found_text, highlight, line, plain
from .rows import Rows


class TextView(Rows):
    """Shows lines as they are, and scrolls if there are more than fit."""

    def __init__(
        self, lines: Sequence[Line] = (), *, id: str | None = None, empty: str = ""
    ) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = lines
        self.needle = ""
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
        """Return line `row`, with the matches of the search highlighted."""
        return highlight(self._lines[row], self.needle) if self._lines else self._empty

    @property
    def here(self) -> int:
        """The row from which a search continues: the cursor, or the last match."""
        return self.cursor

    def search(self, needle: str) -> None:
        """Highlight `needle` in all lines, and go to the first match from here on."""
        self.needle = needle
        self.changed(scroll=False)
        if needle:
            self._go_to_match(0)

    def action_find(self, step: int) -> None:
        """Go to the next match of the search, in direction `step`; wrap around at the end."""
        if self.needle:
            self._go_to_match(step)
        else:
            self.notify("no search to repeat: / starts one", timeout=3)

    def _go_to_match(self, step: int) -> None:
        wanted = self.needle.casefold()
        rows = [
            row for row, each in enumerate(self._lines) if wanted in plain(each.spans).casefold()
        ]
        if not rows:
            self.tell(f"{self.needle!r} not found here")
            return
        here = self.here
        if step < 0:
            row = max((row for row in rows if row < here), default=rows[-1])
        else:
            row = min((row for row in rows if row >= here + step), default=rows[0])
        self.cursor = row
        self.show_row(row)
        self.tell(found_text(self.needle, rows.index(row) + 1, len(rows)))

    def tell(self, word: str) -> None:
        """Show the result of a search."""
        self.notify(word, timeout=4)


def _subject(lines: Sequence[Line]) -> Subject | None:
    """Return the subject of the first line."""
    return lines[0].subject if lines else None
