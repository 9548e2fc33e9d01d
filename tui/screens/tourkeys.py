"""The keys of a tour on screens that stand over the main one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import BindingType
from textual.screen import Screen

from .. import keymap

if TYPE_CHECKING:
    from ..app import ConsoleApp


class TourKeys(Screen[Any]):
    """A screen that a tour's keys close; then they do what they do on the main screen."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.TOUR]

    @property
    def _owner(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a tour they do nothing."""
        if action.startswith("tour_"):
            return self._owner.walk is not None
        return super().check_action(action, parameters)

    def _at_main(self, action: str) -> None:
        self.dismiss(None)
        self.app.call_later(self._owner.main.run_action, action)

    def action_tour_hint(self) -> None:
        """Show the step's hint."""
        self._at_main("tour_hint")

    def action_tour_show(self) -> None:
        """Do the step."""
        self._at_main("tour_show")

    def action_tour_go(self, steps: int) -> None:
        """To the next step, or the one before."""
        self._at_main(f"tour_go({steps})")

    def action_tour_text(self) -> None:
        """Give the keys to the tour's text."""
        self._at_main("tour_text")
