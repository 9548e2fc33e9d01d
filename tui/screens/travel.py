"""Going from a function to its events and back, and from pane to pane by letters."""

from __future__ import annotations

from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

from ..messages import SaveWanted
from ..places import Place, Places
from ..tourwalk import Walk
from ..widgets.command_line import CommandLine
from ..widgets.function_pane import FunctionPane
from ..widgets.pane import Pane
from ..widgets.same_as import SameAs
from ..widgets.tour_pane import TourPane
from ..widgets.trace_pane import TracePane
from .jump import JumpScreen


class Travel(Screen[None]):
    """What the main screen knows of ways between its panes."""

    active: int
    walk: Walk | None
    functions: FunctionPane
    trace: TracePane
    tour: TourPane

    def __init__(self) -> None:
        super().__init__()
        self.places = Places()

    def activate(self, number: int) -> None:
        """Go to pane `number`."""
        raise NotImplementedError

    def action_tour_text(self) -> None:
        """Give the keys to the tour's text."""
        raise NotImplementedError

    def here(self) -> Place:
        """Where one is."""
        event = self.trace.events.key_here() if self.active == 4 else None
        return Place(self.active, self.functions.rows.key, event)

    def go_back(self, place: Place) -> None:
        """Be at `place` again, as far as what was there is there."""
        rows = self.functions.rows
        if place.function not in (None, rows.key) and not self.functions.go_to(place.function):
            self.notify("the function you came from is gone", timeout=3)
        if place.pane == 4:
            events = self.trace.events
            if place.event is not None:
                if not events.go_to(place.event):
                    self.notify("the event you came from is no longer in the buffer", timeout=3)
            else:
                events.follow = True
        self.activate(place.pane)

    def action_open_site(self) -> None:
        """From the list to the call site."""
        self.places.leave(self.here())
        self.activate(2)

    def action_events(self) -> None:
        """From the function to its next event in the trace."""
        place, key = self.here(), self.functions.rows.key
        if key is not None and self.trace.events.go_to_call(key):
            self.places.leave(place)
            self.activate(4)
        else:
            self.notify("the trace has no event of this function", timeout=3)

    def action_return_(self) -> None:
        """Back to where one came from."""
        place = self.places.back()
        if place is None:
            self.notify("you came from nowhere else", timeout=3)
        else:
            self.go_back(place)

    def action_save(self) -> None:
        """Keep the session."""
        self.post_message(SaveWanted())

    def action_jump(self) -> None:
        """A letter over each pane, which goes there."""
        alone = self.has_class("-single")
        line = self.query_one(CommandLine)
        there: dict[str, Widget] = {f"pane{pane.number}": pane for pane in self.query(Pane)}
        if self.walk is not None:
            there["tour"] = self.tour
        if line.display:
            there["line"] = line
        hidden = Region()
        places = {
            id: hidden if alone and id.startswith("pane") else widget.region
            for id, widget in there.items()
        }
        self.app.push_screen(JumpScreen(places), self._jumped)

    def _jumped(self, id: str | None) -> None:
        line = self.query_one(CommandLine)
        if id == "tour":
            self.action_tour_text()
        elif id is not None and id.startswith("pane"):
            if line.display:
                line.close()
                self.query_one(SameAs).display = True
            self.activate(int(id.removeprefix("pane")))
