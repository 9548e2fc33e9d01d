"""Jump mode: each pane shows a letter, and the letter goes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.widgets import Static

from .. import keymap
from ..widgets.keys_bar import KeysBar

LETTERS = {
    "pane1": ("f", "Functions"),
    "pane2": ("s", "Call site"),
    "pane3": ("p", "Trampoline"),
    "pane4": ("t", "Trace"),
    "tour": ("u", "Tour"),
    "line": ("l", "Line"),
}
"""Letter and title of each target, by the id of its widget."""


class JumpScreen(ModalScreen[str | None]):
    """Shows a letter at each of `places`, regions by widget id; its result is the chosen id.

    Hidden widgets have an empty region: they are listed in the middle of the screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(letter, f"jump('{id}')", title.lower(), show=True)
            for id, (letter, title) in LETTERS.items()
        ),
        Binding(f"escape,q,{keymap.JUMP}", "leave", "leave", show=True, key_display="esc"),
    ]

    def __init__(self, places: Mapping[str, Region]) -> None:
        super().__init__()
        self._places = places

    def compose(self) -> ComposeResult:
        """Compose the letters, each at its widget or in the list."""
        listed: list[Content] = []
        for id, region in self._places.items():
            letter, title = LETTERS[id]
            if region.area:
                label = Static(f" {letter}  {title} ", classes="jump")
                edge = 0 if region.height == 1 else 1
                label.styles.offset = (region.x + edge, region.y)
                yield label
            else:
                listed.append(Content.assemble((f" {letter} ", "bold reverse"), f"  {title}"))
        if listed:
            self.add_class("listed")
            box = Static(Content("\n").join(listed), id="jump-box")
            box.border_title = "Go to"
            yield box
        yield KeysBar()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the letters of missing widgets."""
        if action == "jump":
            return parameters[0] in self._places
        return super().check_action(action, parameters)

    def action_jump(self, id: str) -> None:
        """Close with the id of the chosen widget."""
        self.dismiss(id)

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)
