"""The main screen: status line, four panes, the equivalent command, the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from ....core.errors import UsageError
from ...explore.back_stack import Place, Places
from ...explore.filter_completion import completed
from ...present.empty_states import NO_BOOT
from ...present.line import short
from ...present.view import View
from .. import keymap
from ..flows.patching import PatchFlow
from ..flows.step_into import StepIntoFlow
from ..flows.tour import TourFlow
from ..messages import (
    BitsWanted,
    CommandWanted,
    FilterEdited,
    FilterWanted,
    FunctionHighlighted,
    FunctionWanted,
    LineEdited,
    SaveWanted,
    SearchWanted,
    VisitWanted,
)
from ..protocols import Console
from ..tour_layout import PANES_WIDTH, beside_tour
from ..widgets.candidates import Candidates
from ..widgets.command_line import CommandLine
from ..widgets.equivalent_command import EquivalentCommand
from ..widgets.function_pane import FunctionPane
from ..widgets.keys_bar import KeysBar
from ..widgets.pane import Pane
from ..widgets.path_view import PathView
from ..widgets.rows import Rows
from ..widgets.site_view import SiteView
from ..widgets.status_bar import StatusBar
from ..widgets.trace_pane import TracePane

LEAST = Size(60, 16)
"""Minimum size of a terminal; a smaller one shows only a message."""

PANES_HEIGHT = 30

ROOMY_WIDTH = 120
"""Minimum width for whole addresses and a wider list of functions."""

WIDE_WIDTH = 160
"""Minimum width for the panes Call site and Trampoline side by side."""

_CODE_PANES = ((2,), (3,))
"""Parameters of the keys that lead to the panes with code."""

LAYOUTS = ("-small", "-single", "-four", "-wide")


def layout_for(size: Size, zoomed: bool) -> str:
    """Return the one of `LAYOUTS` for a terminal of this size."""
    if size.width < LEAST.width or size.height < LEAST.height:
        return "-small"
    if zoomed or size.width < PANES_WIDTH or size.height < PANES_HEIGHT:
        return "-single"
    return "-wide" if size.width >= WIDE_WIDTH else "-four"


class MainScreen(Screen[None]):
    """Shows the newest `View`; asks the console for every change."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.MAIN, *keymap.TOUR]
    AUTO_FOCUS = "#functions"

    def __init__(
        self,
        console: Console,
        tour: TourFlow,
        stepping: StepIntoFlow,
        patching: PatchFlow,
        session: str | None = None,
        *,
        recorded: bool = False,
    ) -> None:
        """`session` is the name of the saved session, if the console has one.

        `recorded` is whether a recorded trace is shown: it has no code, so there are two panes.
        """
        super().__init__()
        self.recorded = recorded
        self.console = console
        self.tour = tour
        self.stepping = stepping
        self.patching = patching
        self._session = session
        self.zoomed = False
        self.active = 4 if recorded else 1
        self._layout = LAYOUTS[0]
        self._resumed = False
        self._view = View()
        self.places = Places()
        self._awaited: int | None = None
        """rec.ip of a function to go to as soon as the list has it."""
        # Attributes, not queries: a view may still arrive while the screen is taken down.
        self.status = StatusBar(id="status")
        self.functions = FunctionPane()
        self.site = SiteView(id="site")
        self.path = PathView(id="path")
        self.trace = TracePane()

    def compose(self) -> ComposeResult:
        """Compose the whole screen, with the classes of its size: each change styles it again."""
        self._classify()
        yield self.status
        with Container(id="work"):
            with Container(id="panes"):
                yield self.functions
                yield Pane(2, self.site)
                yield Pane(3, self.path)
                yield self.trace
            if self.tour.pane is not None:
                yield self.tour.pane
        yield Candidates(id="candidates")
        yield EquivalentCommand(id="equivalent")
        yield CommandLine(id="line")
        yield KeysBar()
        yield Static("", id="too-small")

    def on_mount(self) -> None:
        """Start with the candidates and the command line hidden."""
        self.query_one(Candidates).display = False
        self.query_one(CommandLine).display = False
        if self.recorded:
            self.set_focus(self.trace.events)
        self._begin()
        self._lay_out()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Keep the styles the first time: they have just been computed."""
        event.refresh_styles = self._resumed
        self._resumed = True

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._lay_out()

    def _begin(self) -> None:
        """Show a hint, and a function that workloads call, unless a tour asks for that function."""
        start = self._view.start
        touring = self.tour.walk is not None
        if self.recorded:
            hint = (
                "/ searches, F filters, _ folds calls; T flame graph, L lanes, E saves; ? all keys"
            )
        elif self._session is not None:
            hint = f"S and quitting save session {self._session}; ctrl+p offers tours"
        elif start is not None and not touring:
            hint = "t rewrites the instruction at ▶ in this running kernel; ctrl+p offers tours"
        else:
            hint = "each action shows its command here; ctrl+p offers tours and experiments"
        self.query_one(EquivalentCommand).hint(hint)
        if start is not None and not self._looked_for(start):
            self.functions.go_to(start)
            if self._layout == "-single":
                self.activate(2)

    def _looked_for(self, ip: int) -> bool:
        """Return whether a tour has the student find the function with the call site at `ip`."""
        functions = self._view.functions
        index = None if functions is None else functions.find(ip)
        if functions is None or index is None:
            return False
        return self.tour.looks_for(functions.row(index).name)

    def _classify(self) -> None:
        """Choose the layout for the size of the terminal; the style sheet does it by classes."""
        size = self.size if self.tour.walk is None else beside_tour(self.size)
        layout = layout_for(size, self.zoomed)
        if layout == "-small" and layout_for(self.size, True) != "-small":
            layout = "-single"
        self._layout = layout
        # All at once: each change of classes styles the whole screen again.
        self.update_classes(
            {
                "-roomy": size.width >= ROOMY_WIDTH,
                "-tour-right": size.width < self.size.width,
                "-tour-low": self.size.width >= PANES_WIDTH,
                "-tour-below": size.height < self.size.height,
                "-recorded": self.recorded,
                **{name: name == layout for name in LAYOUTS},
            }
        )

    def _lay_out(self) -> None:
        self._classify()
        layout = self._layout
        for pane in self.query(Pane):
            pane.title_for(alone=layout == "-single", among=self.panes)
            pane.set_class(pane.number == self.active, "-active")
        if layout == "-small":
            self.query_one("#too-small", Static).update(
                f"The console needs {LEAST.width}x{LEAST.height};\n"
                f"this terminal has {self.size.width}x{self.size.height}.\n\nq quits"
            )

    def visible_panes(self) -> Sequence[int]:
        """Return the numbers of the panes that this layout shows."""
        if self._layout == "-small":
            return ()
        return (self.active,) if self._layout == "-single" else self.panes

    @property
    def panes(self) -> Sequence[int]:
        """The numbers of all panes."""
        return (1, 4) if self.recorded else (1, 2, 3, 4)

    def show(self, view: View, mode: str) -> None:
        """Show a new view; each widget redraws only its changes."""
        began, self._view = self._view.functions is not None, view
        self.status.show(view.status, mode)
        begins = view.functions is not None and not began
        if begins and view.start is not None and self._looked_for(view.start):
            self.functions.rows.order = "address"  # the order `use` would show it first
        self.functions.show(view.functions)
        if begins:
            self._begin()
        if self._awaited is not None:
            self.go_to(self._awaited, soon=True)
        self.site.show_site(view.site, booted=view.functions is not None)
        self.path.show_path(view.path)
        self.trace.show(view.trace, view.status)
        if begins and self.recorded:
            self.functions.rows.order = "hits"
            self.functions.rows.cursor = 0
            if self.trace.events.count():
                self.trace.events.go_to_row(0)

    def show_result(self, command: str, result: str, failed: bool) -> None:
        """Show the last command and its result, unless the console is closing."""
        for line in self.query(EquivalentCommand):
            line.show(command, result, failed=failed)

    def correct(self, command: str, column: int, reason: str) -> None:
        """Let the user correct `command` at `column`; `reason` explains the error."""
        self.query_one(EquivalentCommand).display = False
        self.query_one(CommandLine).correct(command, column, reason)

    def activate(self, number: int) -> None:
        """Go to pane `number`."""
        self.active = number
        self._lay_out()
        pane = self.query_one(f"#pane{number}", Pane)
        # Directly, not by a message: the next key is for this pane.
        self.set_focus(pane.query(Rows).first())
        self.tour.opened(number, self.visible_panes())

    def turn_to(self, number: int) -> None:
        """Show pane `number`, where something has happened, if only one pane fits the window."""
        if self._layout == "-single" and not self.zoomed:
            self.activate(number)

    def on_descendant_focus(self) -> None:
        """Make the pane that has the focus the active one."""
        widget: Widget | None = self.focused
        for ancestor in widget.ancestors_with_self if widget is not None else ():
            if isinstance(ancestor, Pane) and ancestor.number != self.active:
                self.active = ancestor.number
                self._lay_out()
                self.tour.opened(self.active, self.visible_panes())

    def on_function_highlighted(self, message: FunctionHighlighted) -> None:
        """Show the call site of another function."""
        ip = message.ip
        self.console.ask(lambda driver: driver.look_at(ip))

    def on_function_wanted(self, message: FunctionWanted) -> None:
        """Go to a function in the list and show its site."""
        self.go_to(message.ip)

    def go_to(self, ip: int, *, soon: bool = False) -> None:
        """Put the list's cursor on the function with the call site at `ip`; show its site.

        With `soon`, wait for a view that has the function, which may be new.
        """
        self._awaited = None
        place = self._here()
        if self.functions.go_to(ip):
            self.places.leave(place)
            self.activate(1 if self.recorded else 2)
        elif soon:
            self._awaited = ip
        else:
            self.notify("that address is not in available_filter_functions", timeout=3)

    def on_command_wanted(self, message: CommandWanted) -> None:
        """Execute a command."""
        self.console.command(message.command, typed=message.typed)

    def on_visit_wanted(self, message: VisitWanted) -> None:
        """Go to the machine at an event."""
        self.stepping.visit(message.event)

    def on_bits_wanted(self, message: BitsWanted) -> None:
        """Show the bit fields of an instruction."""
        given = "" if message.data is None else f"={message.data.hex()}"
        self.console.command(f"bits {message.at:#x}{given}")

    def on_line_edited(self, message: LineEdited) -> None:
        """Fetch candidates for the command line."""
        text, line = message.text, self.query_one(CommandLine)
        self.console.ask(
            lambda driver: (driver.complete(text), driver.preview(text)),
            lambda found: line.offer(text, *found),
        )

    def on_line_closed(self) -> None:
        """Give the focus back to the pane."""
        self.query_one(CommandLine).close()
        self.query_one(EquivalentCommand).display = True
        self.activate(self.active)

    def on_search_wanted(self, message: SearchWanted) -> None:
        """Search the active pane."""
        views = {2: self.site, 3: self.path}
        views.get(self.active, self.trace.events).search(message.needle)

    def on_filter_edited(self, message: FilterEdited) -> None:
        """Offer words for the trace's filter."""
        words = completed(message.text, self.trace.events.filter_words())
        self.query_one(CommandLine).offer(message.text, words)

    def on_filter_wanted(self, message: FilterWanted) -> None:
        """Filter the trace; let the user correct an invalid filter."""
        try:
            self.trace.events.filter(message.text)
        except UsageError as error:
            self.notify(str(error), title="invalid filter", severity="error")
            self.open_line("F", message.text)

    def on_line_done(self) -> None:
        """Handle the keys that were typed after the line was closed."""
        self.console.release_keys()

    def open_line(self, prefix: str, text: str = "") -> None:
        """Open the line for a command (`:`), a search (`/`) or a filter (`F`), with `text`."""
        self.query_one(EquivalentCommand).display = False
        self.query_one(CommandLine).open(prefix, text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that write characters while a text is edited, or that show nothing."""
        if self._layout == "-small":
            return False
        if isinstance(self.focused, Input) and action not in ("next_pane", "palette", "jump"):
            return False
        if action.startswith("tour_"):
            return self.tour.walk is not None
        if self.recorded and (action in keymap.OF_MACHINE or parameters in _CODE_PANES):
            return False
        return super().check_action(action, parameters)

    def action_command(self) -> None:
        """Open the command line."""
        self.open_line(":")

    def action_filter_trace(self) -> None:
        """Edit the trace's filter."""
        only = self.trace.events.shown.only
        self.open_line("F", "" if only is None else only.text)

    def action_search(self) -> None:
        """Filter the functions, or search the pane that has the focus."""
        if self.active == 1:
            self.activate(1)
            self.functions.search()
        else:
            self.open_line("/")

    def action_pane(self, number: int) -> None:
        """Go to a pane."""
        self.activate(number)

    def action_next_pane(self, step: int) -> None:
        """Go to the next pane, or the one before."""
        panes = self.panes
        self.activate(panes[(panes.index(self.active) + step) % len(panes)])

    def action_zoom(self) -> None:
        """Show one pane in the whole window, or all of them again."""
        self.zoomed = not self.zoomed
        self._lay_out()

    def action_run(self) -> None:
        """Run, or pause."""
        if self.console.view.status.boots:
            self.console.runner.toggle()
        else:
            self.console.notify(NO_BOOT, timeout=4)

    def action_step(self) -> None:
        """Open the stepping screen."""
        self.stepping.open()

    def action_into(self) -> None:
        """Run into the function under the cursor, and step there; in the trace, the event's."""
        self.stepping.into(self.trace.events.site_here() if self.active == 4 else None)

    def action_patch(self) -> None:
        """Watch the next patch, or open the patch under way."""
        self.patching.key()

    def action_back(self) -> None:
        """Undo the last action."""
        self.console.command("back", box=False)

    def action_redo(self) -> None:
        """Redo the last undone command."""
        self.console.command("redo", box=False)

    def action_registers(self) -> None:
        """Show the registers of all CPUs."""
        self.console.command("regs")

    def action_tracer(self) -> None:
        """Switch the function tracer on or off."""
        tracer = "function" if self._view.status.tracer == "nop" else "nop"
        self.console.command(f"echo {tracer} > current_tracer")
        if self.active == 1:
            self.turn_to(2)

    def action_clear_trace(self) -> None:
        """Empty the trace."""
        self.console.command("echo > trace")

    def action_reboot(self) -> None:
        """Reboot the machine."""
        self.console.command("reboot")

    def action_workload(self) -> None:
        """Pick a workload and run it."""
        self.stepping.pick()

    def action_copy_command(self) -> None:
        """Copy the equivalent command of the last action."""
        command = self.query_one(EquivalentCommand).command
        if command:
            self.app.copy_to_clipboard(command)
            self.notify(f"copied: {short(command)}", timeout=2)
        else:
            self.notify("no command to copy yet", timeout=3)

    def action_tour_text(self) -> None:
        """Move the focus to the tour's text."""
        self.query_one("#tour-text").focus()

    def action_tour_hint(self) -> None:
        """Show the step's hint."""
        self.tour.hint()

    def action_tour_show(self) -> None:
        """Execute the step's commands."""
        self.tour.show_me()

    def action_tour_go(self, steps: int) -> None:
        """Go to the next step, or the one before."""
        self.tour.go(steps)

    def action_save(self) -> None:
        """Save the session."""
        self.post_message(SaveWanted())

    def action_help(self) -> None:
        """Show the keys."""
        self.console.show_help()

    # Moving between the panes

    def _here(self) -> Place:
        event = self.trace.events.key_here() if self.active == 4 else None
        return Place(self.active, self.functions.rows.ip, event)

    def _return_to(self, place: Place) -> None:
        """Go back to `place`, and notify the user if its function or event is gone."""
        rows = self.functions.rows
        if place.ip not in (None, rows.ip) and not self.functions.go_to(place.ip):
            self.notify("the previous function no longer exists", timeout=3)
        if place.pane == 4:
            events = self.trace.events
            if place.event is None:
                events.follow = True
            elif not events.go_to(place.event):
                self.notify("the previous event is no longer in the buffer", timeout=3)
        self.activate(place.pane)

    def action_open_site(self) -> None:
        """Go from the list to the call site, or, without code, to the trace."""
        if self.recorded:
            self.action_events()
            return
        self.places.leave(self._here())
        self.activate(2)

    def action_events(self) -> None:
        """Go from the function to its next event in the trace."""
        place, ip = self._here(), self.functions.rows.ip
        if ip is not None and self.trace.events.go_to_call(ip):
            self.places.leave(place)
            self.activate(4)
        else:
            self.notify("the trace has no event of this function", timeout=3)

    def action_return_(self) -> None:
        """Go back to the previous location."""
        place = self.places.back()
        if place is None:
            self.notify("no previous location", timeout=3)
        else:
            self._return_to(place)

    def action_jump(self) -> None:
        """Show a letter over each pane; the letter goes there."""
        # Imported late: the first paint must not wait for it.
        from .jump import JumpScreen

        line = self.query_one(CommandLine)
        targets: dict[str, Widget] = {
            f"pane{pane.number}": pane for pane in self.query(Pane) if pane.number in self.panes
        }
        if self.tour.pane is not None:
            targets["tour"] = self.tour.pane
        if line.display:
            targets["line"] = line
        alone = self._layout == "-single"
        places = {
            id: Region() if alone and id.startswith("pane") else widget.region
            for id, widget in targets.items()
        }
        self.console.open_over(JumpScreen(places), self._jumped)

    def _jumped(self, id: str | None) -> None:
        line = self.query_one(CommandLine)
        if id == "tour":
            self.action_tour_text()
        elif id is not None and id.startswith("pane"):
            if line.display:
                line.close()
                self.query_one(EquivalentCommand).display = True
            self.activate(int(id.removeprefix("pane")))
