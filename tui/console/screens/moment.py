"""The base of screens that show a machine at one moment: the tour's task, last command, undo."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content

from ...present.view import View
from ..messages import TourWanted
from ..protocols import Console
from ..widgets.equivalent_command import EquivalentCommand
from ..widgets.step_task import StepTask
from ..widgets.text_view import TextView
from .tourkeys import TourKeys


class MomentScreen(TourKeys):
    """A screen over the main one whose keys execute commands of the shell."""

    NUMBER: ClassVar[int]
    """Its number among the panes."""

    def __init__(self, console: Console) -> None:
        """The subclass composes `todo` and `equivalent` below its own widgets."""
        super().__init__()
        self.console = console
        self.todo = StepTask()
        self.equivalent = EquivalentCommand(id="equivalent")

    def show(self, view: View, mode: str) -> None:
        """Show a new view."""
        raise NotImplementedError

    def show_tour(self, task: str, state: Content) -> None:
        """Show the task of a tour's step, and its state."""
        self.todo.show(task, state)

    def _at_main(self, action: str) -> None:
        """Do a tour's action; its hint is shown here too."""
        if action == "tour_hint":
            self.app.post_message(TourWanted(action))
        else:
            super()._at_main(action)

    def show_result(self, command: str, result: str, failed: bool) -> None:
        """Show the last command, and its result if it `failed`: the screen shows all else."""
        self.equivalent.show(command, result if failed else "", failed=failed)

    def _command(self, text: str) -> None:
        if self.console.runner.running:
            self.console.runner.pause()  # otherwise the machine would run on after the command
        self.console.command(text, box=False)

    def action_back(self) -> None:
        """Undo the last phase, step or command."""
        self._command("back")

    def action_redo(self) -> None:
        """Redo the last undone command."""
        self._command("redo")

    def action_copy(self) -> None:
        """Copy the subject of the screen."""

    def action_help(self) -> None:
        """Show the keys."""
        self.console.show_help()

    def action_close(self) -> None:
        """Go back to the main screen, whose panes show the same moment."""
        self.dismiss(None)


class Fixed(TextView):
    """Lines in fixed rows of such a screen; keys scroll lines that do not fit."""

    HAS_CURSOR = False

    def action_copy(self) -> None:
        """Copy the subject of the screen: this widget has no selected row."""
        if isinstance(self.screen, MomentScreen):
            self.screen.action_copy()
