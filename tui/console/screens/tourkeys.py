"""The keys of a tour on screens that are over the main one."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import BindingType
from textual.screen import Screen

from .. import keymap
from ..messages import TourWanted

TOURING = "-touring"
"""The class of the app while a tour is being taken."""


class TourKeys(Screen[Any]):
    """A screen that a tour's keys close; the main screen then does the key's action."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.TOUR]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the tour's keys while no tour is being taken."""
        if action.startswith("tour_"):
            return self.app.has_class(TOURING)
        return super().check_action(action, parameters)

    def _at_main(self, action: str) -> None:
        self.dismiss(None)
        self.app.post_message(TourWanted(action))

    def action_tour_hint(self) -> None:
        """Show the step's hint."""
        self._at_main("tour_hint")

    def action_tour_show(self) -> None:
        """Execute the step's commands."""
        self._at_main("tour_show")

    def action_tour_go(self, steps: int) -> None:
        """Go to the next step, or the one before."""
        self._at_main(f"tour_go({steps})")

    def action_tour_text(self) -> None:
        """Move the focus to the tour's text."""
        self._at_main("tour_text")
