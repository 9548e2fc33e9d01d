"""Pane 4: the trace under the kernel's own column titles."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from ..spans import fit
from ..view import Trace
from .pane import Pane
from .trace_view import TraceView

FULL_HEADER = 30
"""Rows from which on the pane shows the whole header instead of its title row."""

FILTER = 24
"""Cells of a filter that the lower edge shows."""


class TracePane(Pane):
    """Header and events; the lower edge tells follow or held, and how many."""

    def __init__(self) -> None:
        super().__init__(4)
        self._trace: Trace | None = None
        self._header: tuple[str, ...] = ()
        self._titles = Static("", id="trace-header", markup=False)
        self.events = TraceView(id="trace")

    def compose(self) -> ComposeResult:
        """Header over the events."""
        yield self._titles
        yield self.events

    def show(self, trace: Trace | None) -> None:
        """Take a new trace."""
        if trace is not self._trace:
            self._trace = trace
            self.events.show(trace)
            self._title()
            self._count()

    def on_resize(self) -> None:
        """A tall pane has room for the whole header."""
        self._title()

    def on_trace_rows_held(self) -> None:
        """Tell what the view does now."""
        self._title()
        self._count()

    def _title(self) -> None:
        shown = self.events.trace
        header = () if shown is None else tuple(shown.header)
        if self.size.height < FULL_HEADER:
            header = tuple(line for line in header if "TASK" in line or "FUNCTION" in line)
        if header != self._header:
            self._header = header
            self._titles.update("\n".join(header))

    def _count(self) -> None:
        view = self.events
        waiting = f" │ {view.pending:,} new" if view.pending else ""
        state = "following" if view.follow else "held"
        self.note(f"{state} │ {self._shown()}{waiting}{self._between()}")

    def _shown(self) -> str:
        """How many rows there are, and how many of them are not shown."""
        shown = self.events.shown
        if shown.trace is None or shown.lines is None:
            return f"{len(shown):,} lines"
        rows = f"{len(shown):,} of {len(shown.trace):,} rows"
        if shown.only is not None:
            rows = f"filter {fit(shown.only.text, FILTER).rstrip()}: {rows}"
        return rows + (f" │ {shown.folded:,} folded" if shown.folded else "")

    def _between(self) -> str:
        """The markers that are set, and the time between both."""
        marks = self.events.marks
        if not marks.letters:
            return ""
        between, trace = marks.between, self.events.trace
        if between is None or trace is None:
            return " │ A is set"
        if not trace.clock_in_ns:
            return f" │ A to B {between:+,} events"
        return f" │ A to B {between / 1000:+,.3f} us"
