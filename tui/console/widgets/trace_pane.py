"""Pane 4: the trace below the kernel's own column titles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.widgets import Static

from ....core.trace.text.columns import joined
from ...present.line import fit
from ...present.trace_line import squeezed_title
from ...present.view import Status
from .pane import Pane
from .trace_view import TraceView

if TYPE_CHECKING:
    from ....core.trace.select.explorer import TraceExplorer

FULL_HEADER = 30
"""Minimum height for the whole header; a lower pane shows only the essential lines."""

_ESSENTIAL = ("TASK", "FUNCTION", "latency:", "started at:", "ended at:", "  cmd ")
"""Texts in these lines: the column titles, or the length and the ends of a latency."""

FILTER = 8
"""Minimum width of a filter on the lower edge, in cells."""


class TracePane(Pane):
    """Header and rows; the lower edge shows whether the trace is followed, and its size."""

    def __init__(self) -> None:
        super().__init__(4)
        self._trace: TraceExplorer | None = None
        self._header: tuple[str, ...] = ()
        self._titles = Static("", id="trace-header", markup=False)
        self.events = TraceView(id="trace")

    def compose(self) -> ComposeResult:
        """Lay out the header above the rows."""
        yield self._titles
        yield self.events

    def show(self, trace: TraceExplorer | None, status: Status) -> None:
        """Show a new trace; `status` explains an empty one."""
        self.events.tell(status)
        if trace is not self._trace:
            self._trace = trace
            self.events.show(trace)
            self._title()
            self._count()

    def on_resize(self) -> None:
        """Fit the header to the height, and the filter to the width."""
        self._title()
        self._count()

    def on_trace_rows_held(self) -> None:
        """Update the edge."""
        self._title()
        self._count()

    def _title(self) -> None:
        shown = self.events.trace
        header = () if shown is None else tuple(shown.text.header)
        if self.size.height < FULL_HEADER:
            header = tuple(line for line in header if any(word in line for word in _ESSENTIAL))
        if shown is not None and self.events.squeezes(self.size.width):
            titles = shown.text.titles
            line = joined(titles)
            header = tuple(squeezed_title(titles) if each == line else each for each in header)
        if header != self._header:
            self._header = header
            self._titles.update("\n".join(header))

    def _count(self) -> None:
        view, shown = self.events, self.events.shown
        state = "following" if view.follow else f"held at {view.cursor + 1:,}"
        waiting = f" │ {view.pending:,} new" if view.pending else ""
        rest = f"{self._rows()}{waiting}{self._between()}"
        if shown.only is not None:
            room = max(self.size.width - len(f" {state} │ filter : {rest} "), FILTER)
            rest = f"filter {fit(shown.only.text, room).rstrip()}: {rest}"
        self.note(f"{state} │ {rest}")

    def _rows(self) -> str:
        """Return the number of rows shown, of all rows, and of folded calls."""
        shown = self.events.shown
        if shown.trace is None or (shown.only is None and not shown.folded):
            return f"{len(shown):,} row{'' if len(shown) == 1 else 's'}"
        folded = f" │ {shown.folded:,} folded" if shown.folded else ""
        return f"{len(shown):,} of {len(shown.trace):,} rows{folded}"

    def _between(self) -> str:
        """Return which markers are set, and the time between them."""
        marks = self.events.marks
        if not marks.letters:
            return ""
        between, trace = marks.between, self.events.trace
        if between is None or trace is None:
            return " │ A is set"
        if not trace.clock_in_ns:
            return f" │ A to B {between:+,} events"
        return f" │ A to B {between / 1000:+,.3f} us"
