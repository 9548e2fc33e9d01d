"""The console's layout as data, for a saved session."""

from __future__ import annotations

from ..saved.session_model import Layout
from .screens.main import MainScreen
from .widgets.trace_view import TraceView


def layout_of(main: MainScreen, theme: str) -> Layout:
    """Return the layout of `main`, also after the app has ended; `theme` is the app's."""
    rows = main.functions.rows
    events = main.trace.events
    return Layout(
        main.active,
        main.zoomed,
        theme,
        rows.pattern,
        rows.order,
        rows.ip,
        "" if events.shown.only is None else events.shown.only.text,
        dict(sorted(events.marks.letters.items())),
        events.bookmarks,
    )


def lay_out(main: MainScreen, layout: Layout) -> None:
    """Restore `layout` on `main` once its functions are known; skip parts that no longer exist.

    The theme is not restored here: the app has it from the start. Raises `UsageError` for
    an invalid trace filter.
    """
    pane = main.functions
    pane.set_filter(layout.filter)
    pane.rows.order = layout.order
    if layout.function is not None:
        pane.go_to(layout.function)
    _explore(main.trace.events, layout)
    main.zoomed = layout.zoomed
    main.activate(layout.pane)


def _explore(view: TraceView, layout: Layout) -> None:
    """Restore the trace's filter, markers and bookmarks. Raises `UsageError`."""
    for letter, key in layout.marks.items():
        view.marks.put(letter, key)
    view.bookmarks = layout.bookmarks
    if layout.trace_filter:
        view.filter(layout.trace_filter)
