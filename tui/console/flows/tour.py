"""A tour in the console: its panel, its keys, and the checks that a step is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ....core.errors import DynftraceError
from ...present.view import Done, View
from ..protocols import Console

if TYPE_CHECKING:
    from ...tours.progress import Progress
    from ...tours.walk import Walk
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
        self.pane: TourPane | None = None
        """The panel of `walk`; imported only for a tour, because importing Markdown is slow."""
        if walk is not None:
            from ..widgets.tour_pane import TourPane

            self.pane = TourPane(walk)
        self.wanted: Path | None = None
        """The lesson to take after this console has ended: it needs a machine of its own."""
        self._begun = False
        self._turning = False
        """Whether the console, and not the student, is opening a pane."""
        self._tried = False
        """Whether "show me" has done the commands of this step without finishing it."""
        self._visible: frozenset[int] = frozenset()
        self._seen: dict[int, object] = {}
        """What each visible pane showed when the student last looked, by its number."""
        self._checked: View | None = None

    @property
    def drawn(self) -> bool:
        """Whether the text of the step, if any, is on the screen."""
        return self.pane is None or self.pane.drawn

    def show(self, word: str = "") -> None:
        """Show the current step, with `word` as a remark."""
        if self.walk is not None and self.pane is not None:
            self.pane.show(self.walk, word)

    def looks_for(self, name: str) -> bool:
        """Return whether the student has to find the call site of the function `name`."""
        steps = () if self.walk is None else self.walk.tour.steps
        return any(name.lstrip(".") in step.sites for step in steps)

    def watch(self, view: View, visible: Iterable[int]) -> None:
        """Note the panes that the student sees; `visible` has their numbers."""
        self.show()
        if self.walk is None:
            return
        if not self._begun and view.functions is not None:
            self._begun = True
            self._begin()
        self._visible = frozenset(visible)
        new = self._look(view)
        if self._console.runner.idle and (new or view != self._checked):
            self.check()

    def opened(self, number: int, visible: Iterable[int]) -> None:
        """Note that the student went to pane `number`."""
        if self.walk is None or self._turning:
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

    def did(self, done: Done) -> None:
        """Note the effects of a student's command, and check whether the step is done."""
        if self.walk is not None:
            self.walk.did(done.effects)
            self.check()

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
        if walk is None or not held or walk.at != at or walk.done:
            return
        walk.found(at, True)
        self.show()
        if self._progress is not None:
            try:
                self._progress.reached(walk)
            except DynftraceError as error:
                self._console.notify(
                    str(error), title="cannot save your progress", severity="error"
                )

    # Keys

    def hint(self) -> None:
        """Show the next hint of the step."""
        if self.walk is None:
            return
        walk = self.walk
        hint, hints = walk.hint(), len(walk.step.hints)
        if hints > 1:
            more = ", F2 shows the next" if walk.hinted < hints else ""
            hint = f"{hint} ({walk.hinted} of {hints}{more})"
        self.show(hint or "no hint: read the text, then press F5")

    def show_me(self) -> None:
        """Execute the step's commands; if an earlier try did not finish the step, restart it first.

        The student may have changed the machine so that the commands do not finish the step.
        Then the machine is rebooted, and the commands of all steps so far are executed.
        """
        walk = self.walk
        if walk is None or not walk.step.commands:
            self.show("nothing to show: read the text, then press F5")
            return
        walk.shown = walk.shown or not walk.done
        before: list[str] = []
        if self._tried:
            before = [
                "reboot",
                *(each for step in walk.tour.steps[: walk.at] for each in step.commands),
            ]
        at = walk.at
        self._console.commands(walk.step.commands, before, lambda: self._showed(at))

    def _showed(self, at: int) -> None:
        """Check whether "show me" has finished step `at`, and say so if not."""
        walk = self.walk
        if walk is None or walk.at != at:
            return
        step, effects = walk.step, walk.effects

        def found(held: bool) -> None:
            self._found(at, held)
            if walk.at == at and not walk.done:
                self._tried = True
                self.show("not done: the machine was changed; F3 again reboots and does all steps")

        self._console.ask(lambda driver: step.done(effects, driver.execute), found)

    def go(self, steps: int) -> None:
        """Go to the next step, or back; after the last step, to the next lesson."""
        walk = self.walk
        if walk is None:
            return
        if not walk.go(steps):
            self._leave(steps)
            return
        self._tried = False
        self._turn()
        contents = self._console.view.contents()
        # Panes that are already on the screen were not opened for this step.
        self._seen = {pane: contents[pane] for pane in self._visible if pane in contents}
        self.show()
        self.check()

    def _begin(self) -> None:
        """Show the last site and the pane, as after taking the previous steps."""
        walk = self.walk
        assert walk is not None
        sites = [site for step in walk.tour.steps[: walk.at] for site in step.sites]
        self._turn()

        def found(done: Done) -> None:
            if done.site is not None:
                self._turning = True
                self._console.go_to(done.site)
                self._turning = False
                self._turn()

        if sites:
            self._console.ask(lambda driver: driver.execute(f"site {sites[-1]}"), found)

    def _turn(self) -> None:
        """Show the pane that the step is about."""
        if self.walk is not None and self.walk.step.pane:
            self._turning = True
            self._visible = frozenset(self._console.turn_to(self.walk.step.pane))
            self._turning = False

    def _leave(self, steps: int) -> None:
        """Start the next lesson, or show a message after the last one."""
        walk = self.walk
        assert walk is not None
        from ...tours import course

        following = course.following(walk.tour.path)
        if steps < 0:
            self.show("this is the first step; F5 continues")
        elif following is None:
            self.show("this was the last lesson; q quits")
        else:
            self.wanted = following
            self._console.leave()
