"""Races: from the key to the table, and from one of its rows to the machine at that instant."""

from __future__ import annotations

from ...present.view import Done
from ..protocols import Console


class RaceFlow:
    """Opens the race screen when `race` has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def key(self) -> None:
        """Race a patch of the shown site against a CPU."""
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
        """Open the table that the command `done` made; return False if it made none."""
        from ....core.shell.outcome import ShowedRace

        tables = [each.table for each in done.effects if isinstance(each, ShowedRace)]
        if not tables or not tables[-1].rows:
            return False
        # Imported late, so that the first paint does not wait for its parts.
        from ..screens.race import RaceScreen

        self._console.open_over(RaceScreen(self._console, tables[-1], done.command))
        return True
