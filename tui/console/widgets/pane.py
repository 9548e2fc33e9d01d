"""A numbered frame around one of the four panes."""

from __future__ import annotations

from collections.abc import Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

TITLES = ("Functions", "Call site", "Trampoline", "Trace")
"""The panes' titles; their keys are 1 to 4."""


class Pane(Vertical):
    """Holds the widgets of pane `number`, with a note in its lower edge."""

    def __init__(self, number: int, *children: Widget) -> None:
        active = " -active" if number == 1 else ""  # the screen moves it
        super().__init__(*children, id=f"pane{number}", classes=f"pane{active}")
        self.number = number
        self.alone = False

    def on_mount(self) -> None:
        """Show the title."""
        self.title_for(alone=False)

    def title_for(self, *, alone: bool, among: Sequence[int] = (1, 2, 3, 4)) -> None:
        """Show the pane's title, or, if it is `alone` on the screen, those of the panes `among`."""
        if not alone:
            self.border_title = f"{self.number} {TITLES[self.number - 1]}"
            return
        parts: list[Content] = []
        for number in among:
            title = TITLES[number - 1]
            own = number == self.number
            parts.append(
                Content.styled(f" {number} {title} ", "bold reverse" if own else "not bold dim")
            )
        self.border_title = Content(" ").join(parts)

    def note(self, text: str) -> None:
        """Show `text` in the lower edge."""
        if text != self.border_subtitle:
            self.border_subtitle = text
