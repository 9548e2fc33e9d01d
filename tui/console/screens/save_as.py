"""Asks for the name under which to save a file."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..widgets.keys_bar import KeysBar


class SaveAs(ModalScreen[str | None]):
    """A line with a file's name; its result is the name, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=True, key_display="esc"),
        Binding("enter", "submit", "save", show=True, key_display="enter"),
    ]

    def __init__(self, name: str, advice: str) -> None:
        """Offer `name`; `advice`, below the line, explains what the name selects."""
        super().__init__()
        self._offered = name
        self._advice = advice

    def compose(self) -> ComposeResult:
        """Compose the line and the advice."""
        with Vertical(id="save-as") as box:
            box.border_title = "Save as"
            yield Input(self._offered, compact=True, id="save-as-name", select_on_focus=False)
            yield Static(self._advice, classes="advice", markup=False)
        yield KeysBar()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the name."""
        event.stop()
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Close without a name."""
        self.dismiss(None)
