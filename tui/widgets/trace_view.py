"""The trace: events as the file `trace` shows them, with the tools to explore them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from .. import keymap
from ..messages import CommandWanted, ExportWanted, FunctionWanted
from ..traceexport import Export
from ..view import Trace
from .trace_rows import TraceRows

if TYPE_CHECKING:
    from ...core.trace.place import Place


class TraceView(TraceRows):
    """Rows of a trace that can be filtered, folded, marked and saved, and lead to their site."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.TRACE]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._words: tuple[Trace | None, int, Sequence[str]] = (None, 0, ())

    def filter(self, text: str) -> None:
        """Show only what the words in `text` mean, all without any; raises `UsageError`."""
        from ...core.trace.rowfilter import RowFilter

        self.shown.only = RowFilter.parse(text)
        self._show(self.trace)

    def filter_words(self) -> Sequence[str]:
        """Words of a filter: those of the event under the cursor first."""
        trace, at = self.trace, self._at
        if trace is not self._words[0] or at != self._words[1]:
            words = () if trace is None else trace.filter_words(at if at < len(trace) else None)
            self._words = (trace, at, words)
        return self._words[2]

    # Folds

    def action_fold(self) -> None:
        """Fold the call under the cursor, or unfold it."""
        here, trace = self._here(), self.trace
        found = (
            None
            if trace is None or here is None
            else trace.fold(self.shown.folds, here, self.shown.only)
        )
        if found is None:
            self.notify("no call of function_graph is here that could be folded", timeout=3)
            return
        self.follow = False
        self.shown.folds, self._at = found
        self._show(trace)

    def action_unfold_all(self) -> None:
        """Unfold all calls."""
        self.shown.folds = None
        self._show(self.trace)

    def action_fold_all(self) -> None:
        """Fold the outermost calls of those shown."""
        if self.trace is not None:
            self.shown.folds = self.trace.fold_all(self.shown.only)
            self._show(self.trace)

    # Markers, bookmarks, and where an event leads

    @property
    def bookmarks(self) -> tuple[Place, ...]:
        """The bookmarks, as what their events are found by."""
        return self.marks.bookmarks

    @bookmarks.setter
    def bookmarks(self, places: Iterable[Place]) -> None:
        self.marks.bookmarks = tuple(places)
        if self.is_mounted:
            self.marked()

    @property
    def between(self) -> int | None:
        """From the stamp at marker A to that at B; None where one is missing."""
        return self.marks.between

    def action_mark(self) -> None:
        """Put marker A on the row, or B where A is set."""
        here = self._here()
        if self.trace is not None and here is not None:
            self.follow = False
            self.marks.put("B" if "A" in self.marks.letters else "A", self.trace.place(here))
            self.marked()

    def action_unmark(self) -> None:
        """Take both markers off."""
        self.marks.clear()
        self.marked()

    def action_bookmark(self) -> None:
        """Put a bookmark on the row, or take it."""
        here = self._here()
        if self.trace is not None and here is not None:
            self.follow = False
            self.marks.toggle(self.trace.place(here))
            self.marked()

    def action_to_bookmark(self, step: int) -> None:
        """Go to the next row with a bookmark, in direction `step`."""
        here = self._here()
        lines = [line for line in self.marks.bookmarked() if self.shown.shows(line)]
        if here is not None:
            lines = [line for line in lines if (line - here) * step > 0]
        if lines:
            self._go(lines[0] if step > 0 else lines[-1])
        else:
            self.notify(f"no bookmark {'below' if step > 0 else 'above'}: B puts one", timeout=3)

    def marked(self) -> None:
        """Show the marks, which are others."""
        self.changed()
        self.post_message(self.Held())

    def action_export(self) -> None:
        """Save the rows shown, or those from marker A to B."""
        start, stop = 0, self.count()
        marked = len(self.marks.letters) == 2
        if marked:
            found = [self.marks.row_of(letter) for letter in "AB"]
            lines = sorted(line for line in found if line is not None)
            if len(lines) < 2:
                self.notify("an event with a marker is no longer in the trace: M", timeout=3)
                return
            start, stop = (self.shown.row(line) for line in lines)
            stop += self.shown.shows(lines[1])
        if start < stop:
            self.post_message(ExportWanted(Export(self.shown.frozen(), start, stop, marked)))
        else:
            self.notify("no rows are shown that could be saved", timeout=3)

    def site_here(self) -> int | None:
        """rec.ip of the site that made the event under the cursor."""
        here = self._here()
        return None if self.trace is None or here is None else self.trace.site(here)

    def action_open_site(self) -> None:
        """Show the function of the event."""
        ip = self.site_here()
        if ip is not None:
            self.post_message(FunctionWanted(ip))

    def go_to_call(self, ip: int) -> bool:
        """Put the cursor on the next event shown of the site at `ip`, round and round."""
        here = self._here()
        line = None if here is None else self._next_call(ip, here + 1)
        if line is None:
            line = self._next_call(ip, 0)
        if line is None:
            return False
        self._go(line)
        return True

    def _next_call(self, ip: int, start: int) -> int | None:
        return None if self.trace is None else self.trace.next_call(ip, start, self.shown.lines)

    def place(self) -> Place | None:
        """Where the cursor is; None while the trace is followed, or empty."""
        here = self._here()
        if self.trace is None or here is None or self.follow:
            return None
        return self.trace.place(here)

    def go_to(self, place: Place) -> bool:
        """Hold the trace with the cursor on `place`; false where its event is gone."""
        line = None if self.trace is None else self.trace.rows_at([place])[0]
        if line is None:
            return False
        self._go(line)
        return True

    def action_registers(self) -> None:
        """Show the registers that the event saved, or the last one before it that saved any."""
        here = self._here()
        hit = None if self.trace is None or here is None else self.trace.hit(here)
        if hit is None:
            self.notify("no event up to here saved registers: see dynamic_events", timeout=3)
        else:
            self.post_message(CommandWanted(f"regs hit {hit}"))
