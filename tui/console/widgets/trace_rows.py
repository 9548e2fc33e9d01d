"""The list of a trace's rows: follows the newest one or holds still, searches, hides rows.

A *row* is a row of the trace; its position in the list is an *index* (see `ShownRows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive

from ....core.trace.text.columns import joined
from ...explore.trace_marks import Marks
from ...explore.trace_selection import ShownRows
from ...present.empty_states import no_rows
from ...present.line import Line, found_text, highlight
from ...present.trace_line import event_line, signed, squeezed_line
from ...present.view import Status
from .rows import Rows

if TYPE_CHECKING:
    from ....core.trace.select.explorer import TraceExplorer
    from ....core.trace.select.rowkey import RowKey

NARROW = 84
"""Width of a list below which blanks between columns are left out."""


class TraceRows(Rows):
    """Shows a trace; while `follow` is on, the newest row stays in sight.

    Moving up holds the trace: the rows on the screen stay, however much the machine
    overwrites, until `follow` is on again or the cursor goes to the last row. `shown` has
    the rows that are shown; when they change, the cursor stays on its row, or goes to the
    next row shown.
    """

    follow: reactive[bool] = reactive(True, repaint=False, init=False)
    needle: reactive[str] = reactive("", repaint=False, init=False)

    class Held(Message):
        """The lower edge must be updated: follow, markers, filter or pending events changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown = ShownRows()
        self.marks = Marks()
        self._newest: TraceExplorer | None = None
        self._wanted = 0  # the row on which the cursor was last put, even if it is hidden now
        self._status = Status()
        self._left: tuple[RowKey, int | None] | None = None
        """The row under the cursor before a visit to the past, and the row it is on instead."""

    # What is shown

    @property
    def trace(self) -> TraceExplorer | None:
        """The trace on the screen."""
        return self.shown.trace

    @property
    def pending(self) -> int:
        """Number of events written since the trace was held."""
        if self.trace is None or self._newest is None:
            return 0
        return max(0, self._newest.written - self.trace.written)

    def show(self, trace: TraceExplorer | None) -> None:
        """Take a new trace; a held one stays unless it is empty or the buffer was cleared."""
        if trace is self._newest:
            return
        self._newest = trace
        if not trace or not self.trace:
            # An empty trace cannot be held: new events would not be seen.
            self.set_reactive(TraceRows.follow, True)
            self._take()
        elif not self.follow and trace.written < self.trace.written:
            self._rewind()
        elif self.follow:
            self._take()
        elif not self._return(trace):
            self.post_message(self.Held())

    def _rewind(self) -> None:
        """Take the trace of an earlier instant, which may lack the row under the cursor."""
        here, trace = self.here, self.trace
        key = self._left[0] if self._left is not None else None
        if key is None and trace is not None and here is not None:
            key = trace.key(here)
        self._take()
        self._left = None if key is None else (key, self.here)

    def _return(self, trace: TraceExplorer) -> bool:
        """Go back to the row that `_rewind` left, if `trace` has it and nothing has moved."""
        left, self._left = self._left, None
        row = trace.rows_at([left[0]])[0] if left is not None else None
        if left is None or row is None or self.here != left[1]:
            return False
        self._take()
        if self.shown.shows(row):
            self.go_to_row(row)
        return True

    def tell(self, status: Status) -> None:
        """Use `status` to explain an empty list."""
        old, self._status = self._status, status
        if not self.count() and no_rows(old, False) != no_rows(status, False):
            self.refresh()

    def empty(self) -> Sequence[str]:
        """Return why the list has no rows, and how to get some."""
        return no_rows(self._status, bool(self.trace))

    def _take(self) -> None:
        self.marks.look(self._newest)
        self._show(self._newest)

    def reselect(self, row: int | None = None) -> None:
        """Select the rows to show again, with the cursor on `row` if given."""
        if row is not None:
            self._wanted = row
        self._show(self.trace)

    def _show(self, trace: TraceExplorer | None) -> None:
        """Show `trace`; while following, the cursor goes to its last row."""
        self.shown.show(trace)
        last = self.count() - 1
        self.changed(last if self.follow else min(self.shown.index(self._wanted), last))
        if self.follow and last >= 0:
            self._wanted = self.shown.row(last)
        self.post_message(self.Held())

    def marked(self) -> None:
        """Draw the rows again after the marks have changed."""
        self.changed()
        self.post_message(self.Held())

    def count(self) -> int:
        """Return the number of rows shown."""
        return len(self.shown)

    def row_width(self) -> int:
        """Return the width of the widest row: long names exceed an 80-column pane."""
        return 110 if self.count() else 0

    def line(self, index: int, width: int) -> Line:
        """Return the row at `index` as the kernel prints it, with a mark in the first column.

        A narrow list leaves out blanks, so that most callers fit.
        """
        draw = squeezed_line if self.squeezes(width) else event_line
        drawn = highlight(draw(self.shown.fields(index)), self.needle)
        sign = self.marks.sign(self.shown.row(index))
        return drawn if sign is None else signed(drawn, sign)

    def squeezes(self, width: int) -> bool:
        """Return whether rows of a list of `width` cells leave out blanks between columns."""
        return width < NARROW and self.trace is not None and bool(self.trace.text.titles)

    def text(self, index: int) -> str:
        """Return the text of the row at `index`."""
        return joined(self.shown.fields(index))

    # The cursor

    @property
    def here(self) -> int | None:
        """The row under the cursor; None if no row is shown."""
        return self.shown.row(self.cursor) if self.cursor < self.count() else None

    @property
    def last_here(self) -> int:
        """The row on which the cursor was last put, whether or not it is shown now."""
        return self._wanted

    def go_to_row(self, row: int) -> None:
        """Hold the trace with the cursor on `row`, which is shown."""
        self.follow = False
        self.cursor = self.shown.index(row)

    def watch_cursor(self, old: int, new: int) -> None:
        """Hold the trace when the cursor leaves the last row."""
        super().watch_cursor(old, new)
        if (row := self.here) is not None:
            self._wanted = row
        if self.follow and new < old:
            self.follow = False
        elif not self.follow:
            self.post_message(self.Held())

    def watch_follow(self, follow: bool) -> None:
        """Catch up when following again."""
        if follow:
            self._take()
        else:
            self.post_message(self.Held())

    def watch_needle(self) -> None:
        """Highlight the matches."""
        self.changed()

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Hold the trace when the user scrolls up."""
        self.follow = False
        super()._on_mouse_scroll_up(event)

    def action_follow(self) -> None:
        """Hold the trace, or follow it."""
        self.follow = not self.follow

    def action_last(self) -> None:
        """Go to the last row and follow the trace."""
        self.follow = True
        super().action_last()

    # Searching

    def search(self, needle: str) -> None:
        """Search for `needle` from the cursor, upwards first: the newest rows are last."""
        self.needle = needle
        here = self.here
        if not needle or here is None:
            return
        found = self.shown.find(needle, here, -1)
        if found is None:
            found = self.shown.find(needle, here + 1, 1)
        if found is None:
            self._not_found()
            return
        self._found(found)
        self.refresh(Region(0, 0, self.size.width, self.size.height))

    def action_find(self, step: int) -> None:
        """Go to the next match of the last search, in direction `step`."""
        here = self.here
        if here is None or not self.needle:
            self.notify("no search to repeat: / starts one", timeout=3)
            return
        found = self.shown.find(self.needle, here + step, step)
        if found is None:
            self._not_found(", below the cursor" if step > 0 else ", above the cursor")
        else:
            self._found(found)

    def _found(self, row: int) -> None:
        """Go to `row`, and show its number among the matches."""
        self.go_to_row(row)
        matches = self.shown.find_all(self.needle)
        if matches is not None:
            place = int(matches.searchsorted(row)) + 1
            self.notify(found_text(self.needle, place, len(matches)), timeout=4)

    def _not_found(self, where: str = "") -> None:
        rows = "the trace" if self.shown.rows is None else "the rows shown"
        self.notify(f"{self.needle!r} not found in {rows}{where}", timeout=3)
