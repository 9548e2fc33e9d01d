"""The rows of the trace: followed or held still, searched, and shown in part."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive

from ..marks import Marks
from ..nothing import no_rows
from ..spans import Line, highlight
from ..traceline import event_line, folded_line, signed
from ..view import Status, Trace
from .rows import Rows
from .shown_rows import ShownRows


class TraceRows(Rows):
    """Shows a `Trace`; while `follow` is on, the newest event stays in sight.

    Moving up holds the trace: the table on the screen stays as it is, however
    much the machine overwrites, until `follow` is switched on again or the
    cursor goes to the last row. What is shown of it says `shown`; when that
    changes, the cursor stays on its event, or goes to the next one that is shown.
    """

    follow: reactive[bool] = reactive(True, repaint=False, init=False)
    needle: reactive[str] = reactive("", repaint=False, init=False)

    class Held(Message):
        """What the lower edge tells has changed: follow, markers, what is shown, what waits."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown = ShownRows()
        self.marks = Marks()
        self._newest: Trace | None = None
        # The trace's line where the cursor was put, be that shown now or not.
        self._at = 0
        self._status = Status()

    # What is shown

    @property
    def trace(self) -> Trace | None:
        """The trace on the screen."""
        return self.shown.trace

    @property
    def pending(self) -> int:
        """Events written since the trace was held."""
        if self.trace is None or self._newest is None:
            return 0
        return max(0, self._newest.written - self.trace.written)

    def show(self, trace: Trace | None) -> None:
        """Take a new trace; a held one stays unless the buffer was cleared, or it is empty."""
        if trace is self._newest:
            return
        self._newest = trace
        if not trace or not self.trace:
            # What has no rows cannot be held: events that come would not be seen.
            self.set_reactive(TraceRows.follow, True)
            self._take()
        elif self.follow or trace.written < self.trace.written:
            self._take()
        else:
            self.post_message(self.Held())

    def tell(self, status: Status) -> None:
        """Have what an empty trace says fit `status`."""
        old, self._status = self._status, status
        if not self.count() and no_rows(old, False) != no_rows(status, False):
            self.refresh()

    def empty(self) -> Sequence[str]:
        """Why there are no rows, and how some would come."""
        return no_rows(self._status, bool(self.trace))

    def _take(self) -> None:
        self.marks.look(self._newest)
        self._show(self._newest)

    def _show(self, trace: Trace | None) -> None:
        """Work out which rows are shown; the last one keeps the cursor while following."""
        self.shown.show(trace)
        last = self.count() - 1
        self.changed(last if self.follow else min(self.shown.row(self._at), last))
        if self.follow and last >= 0:
            self._at = self.shown.line(last)
        self.post_message(self.Held())

    def count(self) -> int:
        """Rows shown."""
        return len(self.shown)

    def row_width(self) -> int:
        """Room for long names: rows are wider than an 80-column pane."""
        return 110 if self.count() else 0

    def line(self, row: int, width: int) -> Line:
        """The event as the kernel prints it, a marker's sign in its first column."""
        folded = self.shown.fold_at(row) is not None
        text = self.text(row)
        line = highlight(folded_line(text) if folded else event_line(text), self.needle)
        sign = self.marks.sign(self.shown.line(row))
        return line if sign is None else signed(line, sign)

    def text(self, row: int) -> str:
        """The plain text of row `row`."""
        return self.shown.text(row)

    # The cursor

    def _here(self) -> int | None:
        """The trace's line under the cursor."""
        return self.shown.line(self.cursor) if self.cursor < self.count() else None

    def _go(self, line: int) -> None:
        """Put the cursor on a line of the trace that is shown, and hold it."""
        self.follow = False
        self.cursor = self.shown.row(line)

    def watch_cursor(self, old: int, new: int) -> None:
        """Leaving the last row holds the trace."""
        super().watch_cursor(old, new)
        if (line := self._here()) is not None:
            self._at = line
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
        """Mark what is searched."""
        self.changed()

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Looking back with the wheel holds the trace too."""
        self.follow = False
        super()._on_mouse_scroll_up(event)

    def action_follow(self) -> None:
        """Hold, or follow."""
        self.follow = not self.follow

    def action_last(self) -> None:
        """The last row follows."""
        self.follow = True
        super().action_last()

    # Searching

    def search(self, needle: str) -> None:
        """Search for `needle` from the cursor upwards first, as the newest rows are last."""
        self.needle = needle
        here = self._here()
        if not needle or here is None:
            return
        line = self.shown.find(needle, here, -1)
        if line is None:
            line = self.shown.find(needle, here + 1, 1)
        if line is None:
            self._not_found("in")
            return
        self._go(line)
        self.refresh(Region(0, 0, self.size.width, self.size.height))

    def action_find(self, step: int) -> None:
        """Go to the next row, in direction `step`, that contains what was searched."""
        here = self._here()
        if here is None or not self.needle:
            self.notify("nothing searched yet: / searches", timeout=3)
            return
        line = self.shown.find(self.needle, here + step, step)
        if line is None:
            self._not_found("below in" if step > 0 else "above in")
        else:
            self._go(line)

    def _not_found(self, where: str) -> None:
        rows = "the trace" if self.shown.lines is None else "the rows shown"
        self.notify(f"no {self.needle!r} {where} {rows}", timeout=3)
