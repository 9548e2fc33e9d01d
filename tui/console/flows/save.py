"""A saved session: its layout is restored at the start, and saved on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.errors import DynftraceError, UsageError
from ..protocols import Console
from ..screens.main import MainScreen
from ..worker import Driver

if TYPE_CHECKING:
    from ...saved.session_store import SessionStore


class SaveFlow:
    """Restores the layout of a saved session after the first view, and saves the session."""

    def __init__(self, console: Console, main: MainScreen, store: SessionStore | None) -> None:
        """`store` is None for a console without `--session`."""
        self._console = console
        self._main = main
        self.store = store
        self._layout = None if store is None else store.layout

    def restore(self) -> None:
        """Restore the layout once, as soon as the functions are known."""
        if self._layout is None or self._console.view.functions is None or self.store is None:
            return
        from ..layout import lay_out

        layout, self._layout = self._layout, None
        reasons = [self.store.differs]
        try:
            lay_out(self._main, layout)
        except UsageError as error:
            reasons.insert(0, str(error))
        for reason in filter(None, reasons):
            self._console.notify(reason, title="session not fully restored", severity="warning")

    def save(self, theme: str) -> None:
        """Save the session with its current layout, and notify the user of the result."""
        store = self.store
        if store is None:
            self._console.notify("to save a session, start with --session NAME", timeout=4)
            return
        from ..layout import layout_of

        layout = layout_of(self._main, theme)

        def save(_: Driver) -> tuple[str, bool]:
            try:
                return store.save(layout), False
            except DynftraceError as error:
                return str(error), True

        def saved(result: tuple[str, bool]) -> None:
            reason, failed = result
            if failed:
                self._console.notify(reason, title="session not saved", severity="error")
            elif reason:
                self._console.notify(reason, severity="warning")
            else:
                self._console.notify(f"session {store.name} saved", timeout=3)

        self._console.ask(save, saved)
