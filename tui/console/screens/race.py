"""The race screen: the table of a race; each cell is one key away from the machine there.

A visit is one line of shell commands, so `back` undoes it. The screen returns from a cell
before it visits another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ....core.shell.outcome import Reached
from ...present.line import short
from ...present.race import Cell, foot_rows, head_rows, table_rows
from ...present.view import RACE, Done, View
from .. import keymap
from ..flows.step_into import watch
from ..protocols import Console
from ..widgets.keys_bar import KeysBar
from ..widgets.text_view import TextView
from .moment import Fixed, MomentScreen
from .patching import PatchScreen
from .stepping import SteppingScreen

if TYPE_CHECKING:
    from ....core.session.race import Table

_AROUND = 5
"""Rows of the screen without table and foot: two of the head, names, command, keys."""


class RaceRows(TextView):
    """The rows of the table."""

    CURSOR_WHEN_BLURRED = True

    def watch_cursor(self, old: int, new: int) -> None:
        """Show what became of the CPU of the chosen row."""
        super().watch_cursor(old, new)
        if isinstance(self.screen, RaceScreen):
            self.screen.choose(new)

    def action_left(self) -> None:
        """Choose the previous method."""
        self._method(-1)

    def action_right(self) -> None:
        """Choose the next method."""
        self._method(1)

    def action_copy(self) -> None:
        """Copy the commands that lead there."""
        if isinstance(self.screen, RaceScreen):
            self.screen.action_copy()

    def _method(self, step: int) -> None:
        if isinstance(self.screen, RaceScreen):
            self.screen.action_method(step)


class RaceScreen(MomentScreen):
    """Shows the table of a race."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.RACE]
    AUTO_FOCUS = "#race-rows"
    NUMBER = RACE

    def __init__(self, console: Console, table: Table, command: str) -> None:
        """`command` made `table`, which is not empty."""
        super().__init__(console)
        self._table = table
        self._said = command
        self._row = self._method = 0
        self._here: Cell | None = None
        """Row and method of the visited cell."""
        self._lines = 0
        """Number of lines that could be undone before the visit."""
        self.head = Fixed(id="race-head", empty="")
        self.names = Fixed(id="race-names", empty="")
        self.rows = RaceRows(id="race-rows")
        self.foot = Fixed(id="race-foot", empty="")

    def compose(self) -> ComposeResult:
        """Compose head, table, the words about a cell, the task of a tour, command, keys."""
        yield self.head
        yield self.names
        yield self.rows
        yield self.foot
        yield self.todo
        yield self.equivalent
        yield KeysBar()

    def on_mount(self) -> None:
        """Begin at the first cell that ends badly, or else inside the site."""
        for each in (self.head, self.names, self.foot):
            each.can_focus = False
        self.equivalent.show(self._said, "", failed=False)
        cells = [
            (row, method)
            for row, each in enumerate(self._table.rows)
            for method, result in enumerate(each.results)
            if result.bad
        ]
        inside = [(row, 0) for row, each in enumerate(self._table.rows) if each.inside]
        self._row, self._method = (*cells, *inside, (0, 0))[0]
        self.draw()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.draw()

    def show(self, view: View, mode: str) -> None:
        """Lay out again: the task of a tour may have changed its height."""
        self.draw()

    def choose(self, row: int) -> None:
        """Choose the cell of `row`."""
        if row != self._row:
            self._row = row
            self.draw()

    def draw(self) -> None:
        """Draw the table, and the words about the chosen cell."""
        if not self.is_mounted:
            return
        width, chosen = self.size.width, (self._row, self._method)
        task = self.todo.rows(width)
        self.todo.styles.height = task
        room = max(self.size.height - _AROUND - task, 2)
        names, rows = table_rows(self._table, width - 1, chosen, self._here)
        foot = foot_rows(self._table, width, chosen, self._here)
        height = min(len(rows), max(room - len(foot), room // 2, 1))
        self.rows.styles.height = height
        self.foot.styles.height = max(room - height, 1)
        self.head.show(head_rows(self._table, width))
        self.names.show((names,))
        self.rows.show(rows)
        self.rows.changed(self._row)
        self.foot.show(foot)

    def action_method(self, step: int) -> None:
        """Choose the method `step` columns to the right."""
        self._method = (self._method + step) % len(self._table.methods)
        self.draw()

    def action_visit(self) -> None:
        """Go to the chosen cell, before the patch."""
        self._go(made=False)

    def action_made(self) -> None:
        """Go to the chosen cell, after the patch."""
        self._go(made=True)

    def action_back(self) -> None:
        """Return from the visited cell."""
        if self._here is None:
            self.notify("no row to return from: enter goes to one", timeout=3)
        else:
            self._return(lambda: None)

    def action_copy(self) -> None:
        """Copy the commands that lead there."""
        text = self._commands()
        self.app.copy_to_clipboard(text)
        self.notify(f"copied: {short(text)}", timeout=2)

    def on_screen_resume(self) -> None:
        """Find out whether the user has undone the visit on another screen."""

        def counted(lines: int) -> None:
            if lines <= self._lines:
                self._here = None
            self.draw()

        if self._here is not None:
            self.console.ask(lambda driver: driver.lines(), counted)

    def _commands(self) -> str:
        row = self._table.rows[self._row]
        return self._table.commands(row, self._table.methods[self._method])

    def _go(self, made: bool) -> None:
        """Go to the chosen cell, before the patch or, if `made`, after it."""
        cell = self._row, self._method
        if not self._table.rows[cell[0]].results[cell[1]].reached:
            self.notify("no CPU reached that position with this method", timeout=3)
        elif self._here == cell and not made and self.console.view.patching is not None:
            self._open(None, made)
        elif self._here is not None:
            self._return(lambda: self._visit(cell, made))
        else:
            self._visit(cell, made)

    def _visit(self, cell: Cell, made: bool) -> None:
        command = self._commands() + ("; patch finish" if made else "")

        def counted(lines: int) -> None:
            self._lines, self._here = lines, cell
            self.console.command(command, box=False, then=arrived)

        def arrived(done: Done) -> None:
            cpus = [each.cpu for each in done.effects if isinstance(each, Reached)]
            if cpus:
                self._open(cpus[0], made)
            self.draw()

        if self.console.runner.running:
            self.console.runner.pause()
        self.console.ask(lambda driver: driver.lines(), counted)

    def _open(self, cpu: int | None, made: bool) -> None:
        """Open the screen of the patch, or of the CPU that raced it."""
        if made:
            watch(self.console, 0)
            self.console.open_over(
                SteppingScreen(self.console), lambda _: watch(self.console, None)
            )
        else:
            self.console.open_over(PatchScreen(self.console, self._table.workload, cpu))

    def _return(self, then: Callable[[], None]) -> None:
        """Return to the machine before the visit, then do `then`."""

        def counted(lines: int) -> None:
            self._here = None
            if lines > self._lines:
                command = f"back {lines - self._lines}"
                self.console.command(command, box=False, then=lambda done: then())
            else:
                then()
            self.draw()

        if self.console.runner.running:
            self.console.runner.pause()
        self.console.ask(lambda driver: driver.lines(), counted)
