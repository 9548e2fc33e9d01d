"""The line that shows the shell command equal to the last action."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class SameAs(Static):
    """Shows `same as: COMMAND` and the command's result in one row."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.command = ""

    def show(self, command: str, result: str = "", *, failed: bool = False) -> None:
        """Show `command` and its `result`, which is an error message if the command `failed`."""
        self.command = command
        sign = ("! ", "bold $error") if failed else ("", "")
        body = (result.strip().split("\n")[0], "$error" if failed else "$faint")
        self.update(
            Content.assemble(
                (" same as: ", "dim"),
                (command, "bold"),
                ("   ", ""),
                sign,
                body if result else "",
            )
        )

    def hint(self, text: str) -> None:
        """Show `text` instead of a command."""
        self.command = ""
        self.update(Content.assemble((" " + text, "dim")))
