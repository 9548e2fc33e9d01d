"""The task of a tour on the stepping screen, which covers the tour's panel."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content
from textual.widgets import Static

_MOST = 3
"""Maximum rows of a task."""


class StepTask(Static):
    """Shows a step's task and state; only a hint changes its height."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__("", id="step-task")
        self._words = self._state = ""
        self.display = False

    def show(self, task: str, state: Content) -> None:
        """Show `task`, which is Markdown with code in backticks, and the `state` below it."""
        words = " ".join(task.split())
        if self.display and (words, state.plain) == (self._words, self._state):
            return
        self._words, self._state = words, state.plain
        self.display = True
        parts = [
            Content.styled(part, "bold $accent" if number % 2 else "$accent")
            for number, part in enumerate(self._words.split("`"))
        ]
        self.update(Content("\n").join([Content("").join(parts), state] if task else [state]))

    def rows(self, width: int) -> int:
        """Return the rows that it takes on a screen `width` wide."""
        if not self.display:
            return 0
        room = max(width - 2, 1)
        task, state = wrap(self._words.replace("`", ""), room), wrap(self._state, room)
        return min(len(task), _MOST) + min(len(state), _MOST)
