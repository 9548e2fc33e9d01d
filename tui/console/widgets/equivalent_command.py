"""The line that shows the shell command equal to the last action."""

from __future__ import annotations

from textual.content import Content
from textual.notifications import SeverityLevel
from textual.timer import Timer
from textual.widgets import Static

from ...present.line import fit

_LABEL = " same as: "
_LEAST = 12
"""Minimum cells of a shortened command that is still useful."""

_TONES: dict[SeverityLevel, str] = {
    "information": "",
    "warning": "$warning",
    "error": "bold $error",
}


class EquivalentCommand(Static):
    """Shows `same as: COMMAND` and the command's result in one row, or temporarily a note.

    If both do not fit, an error shortens the command, or replaces it: the user must see why.
    """

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.command = ""
        self._result = ""
        self._failed = False
        self._hint = ""
        self._note: tuple[str, SeverityLevel] | None = None
        self._timer: Timer | None = None

    def show(self, command: str, result: str = "", *, failed: bool = False) -> None:
        """Show `command` and its `result`, which is an error message if the command `failed`."""
        self.command, self._failed = command, failed
        self._result = result.strip().split("\n")[0]
        self._end_note()

    def hint(self, text: str) -> None:
        """Show `text` instead of a command."""
        self.command, self._hint = "", text
        self._end_note()

    def note(self, text: str, severity: SeverityLevel, seconds: float) -> None:
        """Show `text` for some seconds, then restore the previous text."""
        self._end_note()
        self._note = text, severity
        self._timer = self.set_timer(seconds, self._end_note)
        self.refresh()

    @property
    def noted(self) -> str:
        """The note that is shown now."""
        return "" if self._note is None else self._note[0]

    def _end_note(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._note = self._timer = None
        self.refresh()

    def render(self) -> Content:
        """Return the row."""
        if self._note is not None:
            text, severity = self._note
            return Content.styled(f" {text}", _TONES[severity])
        if not self.command:
            return Content.styled(f" {self._hint}", "$accent")
        sign = "! " if self._failed else ""
        after = f"   {sign}{self._result}" if self._result else ""
        room = self.size.width - len(_LABEL) - (len(after) if self._failed else 0)
        command = self.command
        if self._failed and room < min(_LEAST, len(command)):
            label, command, gap = "", "", " "
        else:
            label, gap = _LABEL, "   "
            command = command if len(command) <= room else fit(command, room)
        return Content.assemble(
            (label, "dim"),
            (command, "bold"),
            (gap if after else "", ""),
            (sign, "bold $error"),
            (self._result, "$error" if self._failed else ""),
        )
