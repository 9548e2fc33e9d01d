"""A tour in the console: its panel, its keys, and the checks that a step is done."""

from __future__ import annotations

from collections.abc import Iterable

from ....core.errors import DynftraceError
from ...present.view import View
from ...tours.progress import Progress
from ...tours.walk import Walk
from ..protocols import Console
from ..widgets.tour_pane import TourPane


class TourFlow:
    """The tour that is being taken, if any.

    A step is done when its checks hold. Commands report their effects. A pane that the
    student opens, or that changes while visible, has the effects of the command that shows
    the same. So keys, mouse, palette and commands all count.
    """

    def __init__(self, console: Console, walk: Walk | None, progress: Progress | None) -> None:
        """`walk` is the tour, `progress` is where finished steps are recorded."""
        self._console = console
        self._progress = progress
        self.walk = walk
        self.pane = TourPane()
        self.wanted: str | None = None
        """The tour to take after this console has ended: it needs a machine of its own."""
        self._visible: frozenset[int] = frozenset()
        self._seen: dict[int, object] = {}
        """What each visible pane showed when the student last looked, by its number."""
        self._checked: View | None = None

    def show(self, word: str = "") -> None:
        """Show the current step, with `word` as a remark."""
        if self.walk is not None:
            self.pane.show(self.walk, word)

    def watch(self, view: View, visible: Iterable[int]) -> None:
        """Note what the student sees; `visible` has the numbers of the panes."""
        self.show()
        if self.walk is None:
            return
        self._visible = frozenset(visible)
        new = self._look(view)
        if self._console.runner.idle and (new or view != self._checked):
            self.check()

    def opened(self, number: int, visible: Iterable[int]) -> None:
        """Note that the student went to pane `number`."""
        if self.walk is None:
            return
        self._visible = frozenset(visible)
        self._seen.pop(number, None)
        if self._look(self._console.view):
            self.check()

    def _look(self, view: View) -> bool:
        """Add the effects of the panes that show something new; return whether any are new."""
        new = False
        contents = view.contents()
        self._seen = {pane: what for pane, what in self._seen.items() if pane in self._visible}
        for pane in sorted(self._visible.intersection(contents)):
            if pane in self._seen and self._seen[pane] == contents[pane]:
                continue
            self._seen[pane] = contents[pane]
            if self.walk is not None and (effects := view.sights.get(pane)):
                self.walk.did(effects)
                new = True
        return new

    def check(self) -> None:
        """Check whether the current step is done."""
        walk, self._checked = self.walk, self._console.view
        if walk is None or walk.done:
            return
        at, step, effects = walk.at, walk.step, walk.effects
        self._console.ask(
            lambda driver: step.done(effects, driver.execute), lambda held: self._found(at, held)
        )

    def _found(self, at: int, held: bool) -> None:
        """Show that step `at` is done, if `held`, and record it."""
        walk = self.walk
        if walk is None or not held:
            return
        walk.found(at, True)
        self.show()
        if self._progress is not None:
            try:
                self._progress.reached(walk.tour, at + 1)
            except DynftraceError as error:
                self._console.notify(
                    str(error), title="cannot save your progress", severity="error"
                )

    # Keys

    def hint(self) -> None:
        """Show the step's hint."""
        if self.walk is not None:
            hint = self.walk.step.hint.replace("`", "")
            self.show(hint or "no hint: read the text, then press F5")

    def show_me(self) -> None:
        """Execute the step's commands."""
        for command in () if self.walk is None else self.walk.step.commands:
            self._console.command(command)

    def go(self, steps: int) -> None:
        """Go to the next step, or back."""
        if self.walk is not None and self.walk.go(steps):
            contents = self._console.view.contents()
            # What is on the screen already was not opened for this step.
            self._seen = {pane: contents[pane] for pane in self._visible if pane in contents}
            self.show()
            self.check()
