"""How the console lies, as data: for a session that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sessions import Layout, MarkData
from .widgets.trace_view import Mark, TraceView

if TYPE_CHECKING:
    from .app import ConsoleApp


def layout_of(app: ConsoleApp) -> Layout:
    """How `app` lies now; it may have ended."""
    main = app.main
    rows = main.functions.rows
    marks, bookmarks = _marks_of(main.trace.events)
    return Layout(
        main.active,
        main.zoomed,
        app.theme,
        rows.pattern,
        rows.order,
        rows.key,
        marks,
        bookmarks,
    )


def lay_out(app: ConsoleApp, layout: Layout) -> None:
    """Have `app`, which has its functions, lie as it did; what is gone by now is left out.

    The theme is set before, when the app is made.
    """
    main = app.main
    pane = main.functions
    pane.set_filter(layout.filter)
    pane.rows.order = layout.order
    if layout.function is not None:
        pane.go_to(layout.function)
    _mark(main.trace.events, layout)
    main.zoomed = layout.zoomed
    main.activate(layout.pane)


def _marks_of(view: TraceView) -> tuple[dict[str, MarkData], tuple[MarkData, ...]]:
    """Markers by letter, and bookmarks: what their events are found by."""
    return {letter: (mark.time, mark.text) for letter, mark in view.marks.items()}, ()


def _mark(view: TraceView, layout: Layout) -> None:
    for letter, (time, text) in layout.marks.items():
        if isinstance(time, int) and isinstance(text, str):
            view.marks[letter] = Mark(time, text)
    view.marked()
