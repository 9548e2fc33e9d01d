"""The trace as the file `trace` shows it, with the tools to explore it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from ...explore.trace_export import Export
from .. import keymap
from ..messages import CommandWanted, ExportWanted, FunctionWanted, VisitWanted
from .trace_rows import TraceRows

if TYPE_CHECKING:
    from ....core.trace.select.explorer import TraceExplorer
    from ....core.trace.select.rowkey import RowKey


class TraceView(TraceRows):
    """Rows of a trace that can be filtered, folded, marked and saved; each leads to its site."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.TRACE]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._words: tuple[TraceExplorer | None, int, Sequence[str]] = (None, 0, ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that need a machine while a recorded trace is shown."""
        if self._status.recorded and action in ("follow", "registers", "goto"):
            return False
        return super().check_action(action, parameters)

    def filter(self, text: str) -> None:
        """Show only rows that match the words of `text`; raises `UsageError`."""
        from ....core.trace.select.rowfilter import RowFilter

        self.shown.only = RowFilter.parse(text)
        self.reselect()

    def filter_words(self) -> Sequence[str]:
        """Return words for a filter; the words of the row under the cursor come first."""
        trace, row = self.trace, self.last_here
        if trace is not self._words[0] or row != self._words[1]:
            words = () if trace is None else trace.filter_words(row if row < len(trace) else None)
            self._words = (trace, row, words)
        return self._words[2]

    # Folds

    def action_fold(self) -> None:
        """Fold or unfold the call under the cursor."""
        here, trace, shown = self.here, self.trace, self.shown
        found = None
        if trace is not None and here is not None:
            found = trace.fold(shown.folds, here, shown.only)
        if found is None:
            self.notify("cannot fold: this row is not in a function_graph call", timeout=3)
            return
        self.follow = False
        shown.folds, opening = found
        self.reselect(opening)

    def action_unfold_all(self) -> None:
        """Unfold all calls."""
        self.shown.folds = None
        self.reselect()

    def action_fold_all(self) -> None:
        """Fold the outermost shown calls."""
        if self.trace is not None:
            self.shown.folds = self.trace.fold_all(self.shown.only)
            self.reselect()

    # Markers, bookmarks, and where an event leads

    @property
    def bookmarks(self) -> tuple[RowKey, ...]:
        """The keys of the rows with a bookmark."""
        return self.marks.bookmarks

    @bookmarks.setter
    def bookmarks(self, keys: Iterable[RowKey]) -> None:
        self.marks.bookmarks = tuple(keys)
        if self.is_mounted:
            self.marked()

    @property
    def between(self) -> int | None:
        """Time stamp at marker B minus that at A; None unless both are set."""
        return self.marks.between

    def action_mark(self) -> None:
        """Set marker A on the row, or B if A is set."""
        here = self.here
        if self.trace is not None and here is not None:
            self.follow = False
            self.marks.put("B" if "A" in self.marks.letters else "A", self.trace.key(here))
            self.marked()

    def action_unmark(self) -> None:
        """Remove both markers."""
        self.marks.clear()
        self.marked()

    def action_bookmark(self) -> None:
        """Set a bookmark on the row, or remove it."""
        here = self.here
        if self.trace is not None and here is not None:
            self.follow = False
            self.marks.toggle(self.trace.key(here))
            self.marked()

    def action_to_bookmark(self, step: int) -> None:
        """Go to the next row with a bookmark, in direction `step`."""
        here = self.here
        rows = [row for row in self.marks.bookmarked() if self.shown.shows(row)]
        if here is not None:
            rows = [row for row in rows if (row - here) * step > 0]
        if rows:
            self.go_to_row(rows[0] if step > 0 else rows[-1])
        else:
            self.notify(f"no bookmark {'below' if step > 0 else 'above'}: B sets one", timeout=3)

    def action_export(self) -> None:
        """Save the rows shown, or those from marker A to B."""
        start, stop = 0, self.count()
        marked = len(self.marks.letters) == 2
        if marked:
            found = [self.marks.row_of(letter) for letter in "AB"]
            rows = sorted(row for row in found if row is not None)
            if len(rows) < 2:
                self.notify("a marked event has left the buffer: M removes the markers", timeout=3)
                return
            start, stop = (self.shown.index(row) for row in rows)
            stop += self.shown.shows(rows[1])
        if start < stop:
            self.post_message(ExportWanted(Export(self.shown.frozen(), start, stop, marked)))
        else:
            self.notify("no rows to save", timeout=3)

    def site_here(self) -> int | None:
        """Return rec.ip of the site that made the event under the cursor, or None."""
        here = self.here
        return None if self.trace is None or here is None else self.trace.site(here)

    def action_open_site(self) -> None:
        """Show the function of the event."""
        ip = self.site_here()
        if ip is not None:
            self.post_message(FunctionWanted(ip))

    def go_to_call(self, ip: int) -> bool:
        """Put the cursor on the next shown call of the site `ip`; wrap around at the end.

        Return false if no such row is shown.
        """
        here = self.here
        row = None if here is None else self.shown.next_call(ip, here + 1)
        if row is None:
            row = self.shown.next_call(ip, 0)
        if row is None:
            return False
        self.go_to_row(row)
        return True

    def key_here(self) -> RowKey | None:
        """Return the key of the row under the cursor; None while following, or without rows."""
        here = self.here
        if self.trace is None or here is None or self.follow:
            return None
        return self.trace.key(here)

    def go_to(self, key: RowKey) -> bool:
        """Hold the trace with the cursor on the row of `key`; return false if it is gone."""
        row = None if self.trace is None else self.trace.rows_at([key])[0]
        if row is None:
            return False
        self.go_to_row(row)
        return True

    def time_here(self) -> int | None:
        """Return the time of the event under the cursor; None without rows."""
        here = self.here
        return None if self.trace is None or here is None else self.trace.time(here)

    def go_to_time(self, time: int) -> None:
        """Hold the trace with the cursor on the shown event nearest to `time`."""
        row = None if self.trace is None else self.trace.row_near(time)
        if row is not None:
            self.go_to_row(row)

    def action_goto(self) -> None:
        """Go to the machine at the event under the cursor."""
        here = self.here
        if self.trace is None or here is None:
            return
        if self.trace.clock_in_ns:
            self.post_message(VisitWanted(self.trace.moment(here)))
        else:
            self.notify("cannot visit: the trace clock counts events", timeout=3)

    def action_registers(self) -> None:
        """Show the registers of the last event, up to the cursor, that saved any."""
        here = self.here
        hit = None if self.trace is None or here is None else self.trace.hit(here)
        if hit is None:
            self.notify(
                "no event at or above this row saved registers: see dynamic_events", timeout=3
            )
        else:
            self.post_message(CommandWanted(f"regs hit {hit}"))
