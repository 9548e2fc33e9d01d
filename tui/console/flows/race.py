"""Races: from the key to the table, and from a row of it to the machine at that instant."""

from __future__ import annotations

from ...present.view import Done
from ..protocols import Console


class RaceFlow:
    """Opens the race screen when `race` has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def key(self) -> None:
        """Let a CPU meet a patch of the site that is shown."""
        view = self._console.view
        index = None
        if view.functions is not None and view.ip is not None:
            index = view.functions.find(view.ip)
        if view.functions is None or index is None or view.ip is None:
            self._console.notify("show a call site first", timeout=3)
            return
        name = view.functions.row(index).name
        if self._console.runner.running:
            self._console.runner.pause()
        self._console.command(f"race {name}")

    def show(self, done: Done) -> bool:
        """Open the table that `done` has shown; return False if it has shown none."""
        from ....core.shell.outcome import ShowedRace

        tables = [each.table for each in done.effects if isinstance(each, ShowedRace)]
        if not tables or not tables[-1].rows:
            return False
        # Imported late: its parts take time that the first paint does not have.
        from ..screens.race import RaceScreen

        self._console.open_over(RaceScreen(self._console, tables[-1], done.command))
        return True
