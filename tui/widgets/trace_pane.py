"""Pane 4: the trace under the kernel's own column titles."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from ..spans import fit
from ..view import Status, Trace
from .pane import Pane
from .trace_view import TraceView

FULL_HEADER = 30
"""Rows from which on the pane shows the whole header instead of its title row."""

FILTER = 8
"""Cells of a filter that the lower edge shows at least; more where there is room."""


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

    def show(self, trace: Trace | None, status: Status) -> None:
        """Take a new trace; `status` tells why there may be none."""
        self.events.tell(status)
        if trace is not self._trace:
            self._trace = trace
            self.events.show(trace)
            self._title()
            self._count()

    def on_resize(self) -> None:
        """A tall pane has room for the whole header, a wide one for the whole filter."""
        self._title()
        self._count()

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
        view, shown = self.events, self.events.shown
        state = "following" if view.follow else f"held at {view.cursor + 1:,}"
        waiting = f" │ {view.pending:,} new" if view.pending else ""
        rest = f"{self._rows()}{waiting}{self._between()}"
        if shown.only is not None:
            room = max(self.size.width - len(f" {state} │ filter : {rest} "), FILTER)
            rest = f"filter {fit(shown.only.text, room).rstrip()}: {rest}"
        self.note(f"{state} │ {rest}")

    def _rows(self) -> str:
        """How many rows are shown, and of how many when that are not all."""
        shown = self.events.shown
        if shown.trace is None or (shown.only is None and not shown.folded):
            return f"{len(shown):,} rows"
        folded = f" │ {shown.folded:,} folded" if shown.folded else ""
        return f"{len(shown):,} of {len(shown.trace):,} rows{folded}"

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
