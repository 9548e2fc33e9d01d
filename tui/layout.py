"""How the console lies, as data: for a session that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sessions import Layout
from .widgets.trace_view import TraceView

if TYPE_CHECKING:
    from .app import ConsoleApp


def layout_of(app: ConsoleApp) -> Layout:
    """How `app` lies now; it may have ended."""
    main = app.main
    rows = main.functions.rows
    events = main.trace.events
    return Layout(
        main.active,
        main.zoomed,
        app.theme,
        rows.pattern,
        rows.order,
        rows.key,
        "" if events.shown.only is None else events.shown.only.text,
        dict(sorted(events.marks.letters.items())),
        events.bookmarks,
    )


def lay_out(app: ConsoleApp, layout: Layout) -> None:
    """Have `app`, which has its functions, lie as it did; what is gone by now is left out.

    The theme is set before, when the app is made. Raises `UsageError` for words that are no
    filter of the trace.
    """
    main = app.main
    pane = main.functions
    pane.set_filter(layout.filter)
    pane.rows.order = layout.order
    if layout.function is not None:
        pane.go_to(layout.function)
    _explore(main.trace.events, layout)
    main.zoomed = layout.zoomed
    main.activate(layout.pane)


def _explore(view: TraceView, layout: Layout) -> None:
    """The trace's filter, markers and bookmarks. Raises `UsageError` for words of no filter."""
    for letter, key in layout.marks.items():
        view.marks.put(letter, key)
    view.bookmarks = layout.bookmarks
    if layout.trace_filter:
        view.filter(layout.trace_filter)
