"""Watches patches: from the key to the patch screen."""

from __future__ import annotations

from ...present.view import View
from ..protocols import Console
from .step_into import StepIntoFlow


class PatchFlow:
    """Opens the patch screen as soon as a patch waits in front of its first phase."""

    def __init__(self, console: Console, stepping: StepIntoFlow) -> None:
        self._console = console
        self._stepping = stepping
        self._waiting = False

    def show(self, view: View) -> None:
        """Take note of a new view."""
        began, self._waiting = not self._waiting, view.patching is not None
        if began and self._waiting:
            self._open()

    def key(self) -> None:
        """Open the screen of the patch under way, or start or stop watching for the next one.

        The patch is watched at the shown call site.
        """
        view = self._console.view
        if view.patching is not None:
            self._open()
            return
        index = None
        if view.functions is not None and view.ip is not None:
            index = view.functions.find(view.ip)
        what = "off" if view.watching else "on"
        if index is not None and view.functions is not None and not view.watching:
            what = view.functions.row(index).name
        self._console.command(f"patch watch {what}")

    def _open(self) -> None:
        if self._console.at_main:
            # Imported late, so that the first paint does not wait for its parts.
            from ..screens.patching import PatchScreen

            self._console.open_over(PatchScreen(self._console, self._stepping.workload))
