"""The main screen: status line, four panes, the equivalent command, the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Input, Static

from ...core.errors import UsageError
from .. import keymap
from ..filterline import completed
from ..messages import (
    BitsWanted,
    CommandWanted,
    ExportWanted,
    FilterEdited,
    FilterWanted,
    FunctionHighlighted,
    FunctionWanted,
    LineEdited,
    SearchWanted,
)
from ..tourwalk import Walk
from ..view import View
from ..widgets.candidates import Candidates
from ..widgets.code_view import CodeView
from ..widgets.command_line import CommandLine
from ..widgets.function_pane import FunctionPane
from ..widgets.keys_bar import KeysBar
from ..widgets.pane import Pane
from ..widgets.rows import Rows
from ..widgets.same_as import SameAs
from ..widgets.status_bar import StatusBar
from ..widgets.tour_pane import TourPane
from ..widgets.trace_pane import TracePane
from .travel import Travel

if TYPE_CHECKING:
    from ..app import ConsoleApp

LEAST = Size(60, 16)
"""A smaller terminal is told so."""

PANES_WIDTH = 100
"""From here on four panes stand side by side."""

PANES_HEIGHT = 30

WIDE_WIDTH = 160
"""From here on call site and trampoline stand side by side."""

LAYOUTS = ("-small", "-single", "-four", "-wide")


def layout_for(size: Size, zoomed: bool) -> str:
    """Which of `LAYOUTS` a terminal of this size gets."""
    if size.width < LEAST.width or size.height < LEAST.height:
        return "-small"
    if zoomed or size.width < PANES_WIDTH or size.height < PANES_HEIGHT:
        return "-single"
    return "-wide" if size.width >= WIDE_WIDTH else "-four"


TOUR_WIDTH, TOUR_HEIGHT = 52, 10
"""A tour's panel: columns beside the panes of a wide terminal, else rows below them."""


def beside_tour(size: Size) -> Size:
    """What a tour leaves of a terminal."""
    if size.width - TOUR_WIDTH >= PANES_WIDTH:
        return Size(size.width - TOUR_WIDTH, size.height)
    return Size(size.width, size.height - TOUR_HEIGHT)


class MainScreen(Travel):
    """Shows the newest `View`; asks the app for everything that changes something."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.MAIN, *keymap.TOUR]
    AUTO_FOCUS = "#functions"

    def __init__(self, walk: Walk | None = None) -> None:
        """`walk` is a tour to be taken here."""
        super().__init__()
        self.walk = walk
        self.tour = TourPane()
        self.zoomed = False
        self.active = 1
        self._view = View()
        # Kept, not queried: a view may still come while the screen is taken down.
        self.status = StatusBar(id="status")
        self.functions = FunctionPane()
        self._wanted: int | None = None
        self.site = CodeView(id="site", empty="booting…")
        self.path = CodeView(id="path", empty="booting…")
        self.trace = TracePane()

    def compose(self) -> ComposeResult:
        """The whole screen."""
        yield self.status
        with Container(id="work"):
            with Container(id="panes"):
                yield self.functions
                yield Pane(2, self.site)
                yield Pane(3, self.path)
                yield self.trace
            if self.walk is not None:
                yield self.tour
        yield Candidates(id="candidates")
        yield SameAs(id="same-as")
        yield CommandLine(id="line")
        yield KeysBar()
        yield Static("", id="too-small")

    @property
    def console(self) -> ConsoleApp:
        """The app, by its own type."""
        return cast("ConsoleApp", self.app)

    def on_mount(self) -> None:
        """Start without candidates and line."""
        self.query_one(Candidates).display = False
        self.query_one(CommandLine).display = False
        keeper = self.console.keeper
        told = (
            "each action shows its command here"
            if keeper is None
            else f"S and leaving keep session {keeper.name}"
        )
        self.query_one(SameAs).hint(f"{told}; ctrl+p offers tours and experiments")
        self._lay_out()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._lay_out()

    def _lay_out(self) -> None:
        size = self.size if self.walk is None else beside_tour(self.size)
        layout = layout_for(size, self.zoomed)
        if layout == "-small" and layout_for(self.size, True) != "-small":
            layout = "-single"
        self.set_class(size.width < self.size.width, "-tour-right")
        for name in LAYOUTS:
            self.set_class(name == layout, name)
        for pane in self.query(Pane):
            pane.title_for(alone=layout == "-single")
            pane.set_class(pane.number == self.active, "-active")
        if layout == "-small":
            self.query_one("#too-small", Static).update(
                f"The console needs {LEAST.width}x{LEAST.height};\n"
                f"this terminal has {self.size.width}x{self.size.height}.\n\nq quits"
            )

    def show(self, view: View, mode: str) -> None:
        """Show a new view; each widget draws what changed for it."""
        self._view = view
        self.status.show(view.status, mode)
        self.functions.show(view.functions)
        if self._wanted is not None:
            self.go_to(self._wanted, soon=True)
        self.site.show(view.site, view.site_row)
        self.path.show(view.path)
        self.trace.show(view.trace, view.status)

    def show_tour(self, word: str = "") -> None:
        """Show where the tour is; `word` is something to say about the step."""
        if self.walk is not None:
            self.tour.show(self.walk, word)

    def told(self, command: str, result: str, failed: bool) -> None:
        """Show what was done and how it went."""
        self.query_one(SameAs).show(command, result, failed=failed)

    def correct(self, command: str, column: int, reason: str) -> None:
        """Have `command` typed again, from `column` on, where it is wrong by `reason`."""
        self.query_one(SameAs).display = False
        self.query_one(CommandLine).correct(command, column, reason)

    def activate(self, number: int) -> None:
        """Go to pane `number`."""
        self.active = number
        self._lay_out()
        pane = self.query_one(f"#pane{number}", Pane)
        # At once, and not when the toolkit comes to it: the next key is for this pane.
        self.set_focus(pane.query(Rows).first())

    def on_descendant_focus(self) -> None:
        """The pane that has the focus is the active one."""
        widget: Widget | None = self.focused
        for ancestor in widget.ancestors_with_self if widget is not None else ():
            if isinstance(ancestor, Pane) and ancestor.number != self.active:
                self.active = ancestor.number
                self._lay_out()

    def on_function_highlighted(self, message: FunctionHighlighted) -> None:
        """Show the call site of another function."""
        self.console.look_at(message.ip)

    def on_function_wanted(self, message: FunctionWanted) -> None:
        """Go to a function in the list and show its site."""
        self.go_to(message.ip)

    def go_to(self, ip: int, *, soon: bool = False) -> None:
        """Put the list's cursor on the function with the call site at `ip`; show its site.

        With `soon` it may have come just now, and is gone to when a view has it.
        """
        self._wanted = None
        place = self.here()
        if self.functions.go_to(ip):
            self.places.leave(place)
            self.activate(2)
        elif soon:
            self._wanted = ip
        else:
            self.notify("that address is not in available_filter_functions", timeout=3)

    def on_command_wanted(self, message: CommandWanted) -> None:
        """Hand a command to the shell."""
        self.console.command(message.command)

    def on_bits_wanted(self, message: BitsWanted) -> None:
        """Show the bit fields of an instruction."""
        self.console.command(f"bits {message.at:#x}")

    def on_line_edited(self, message: LineEdited) -> None:
        """Fetch candidates for the command line."""
        self.console.complete(message.text)

    def on_line_closed(self) -> None:
        """Back to the pane."""
        self.query_one(CommandLine).close()
        self.query_one(SameAs).display = True
        self.activate(self.active)

    def on_search_wanted(self, message: SearchWanted) -> None:
        """Search the trace."""
        self.trace.events.search(message.needle)

    def on_filter_edited(self, message: FilterEdited) -> None:
        """Offer words for the trace's filter."""
        words = completed(message.text, self.trace.events.filter_words())
        self.query_one(CommandLine).offer(message.text, words)

    def on_filter_wanted(self, message: FilterWanted) -> None:
        """Filter the trace; what cannot be read can be put right."""
        try:
            self.trace.events.filter(message.text)
        except UsageError as error:
            self.notify(str(error), title="not a filter", severity="error")
            self.open_line("F", message.text)

    def on_export_wanted(self, message: ExportWanted) -> None:
        """Save rows of the trace."""
        self.console.export(message.export)

    def on_line_done(self) -> None:
        """What was typed behind the line is for the pane."""
        self.console.release_keys()

    def open_line(self, prefix: str, text: str = "") -> None:
        """Open the line for a command (`:`), a search (`/`) or a filter (`F`), with `text`."""
        self.query_one(SameAs).display = False
        self.query_one(CommandLine).open(prefix, text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a text is edited, keys that write characters do nothing else."""
        if isinstance(self.focused, Input) and action not in ("next_pane", "palette", "jump"):
            return False
        if action.startswith("tour_"):
            return self.walk is not None
        return super().check_action(action, parameters)

    def action_command(self) -> None:
        """Open the command line."""
        self.open_line(":")

    def action_filter_trace(self) -> None:
        """Edit the trace's filter."""
        only = self.trace.events.shown.only
        self.open_line("F", "" if only is None else only.text)

    def action_search(self) -> None:
        """Filter the functions, or search the trace when it has the focus."""
        if self.active == 4:
            self.open_line("/")
        else:
            self.activate(1)
            self.functions.search()

    def action_pane(self, number: int) -> None:
        """Go to a pane."""
        self.activate(number)

    def action_next_pane(self, step: int) -> None:
        """The next pane, round and round."""
        self.activate((self.active - 1 + step) % 4 + 1)

    def action_zoom(self) -> None:
        """One pane in the whole window, and back."""
        self.zoomed = not self.zoomed
        self._lay_out()

    def action_run(self) -> None:
        """Run, or pause."""
        self.console.toggle_run()

    def action_step(self) -> None:
        """Open the stepping screen."""
        self.console.open_stepping()

    def action_into(self) -> None:
        """Run into the function under the cursor, in the trace that of the event; step there."""
        self.console.step_into(self.trace.events.site_here() if self.active == 4 else None)

    def action_back(self) -> None:
        """Go back by one action."""
        self.console.command("back", box=False)

    def action_registers(self) -> None:
        """Show the registers of all CPUs."""
        self.console.command("regs")

    def action_tracer(self) -> None:
        """Function tracer on, or off."""
        tracer = "function" if self._view.status.tracer == "nop" else "nop"
        self.console.command(f"echo {tracer} > current_tracer")

    def action_clear_trace(self) -> None:
        """Empty the trace."""
        self.console.command("echo > trace")

    def action_reboot(self) -> None:
        """Boot again."""
        self.console.command("reboot")

    def action_workload(self) -> None:
        """Pick a workload."""
        self.console.pick_workload()

    def action_copy_command(self) -> None:
        """Copy the command that does the same as the last action."""
        command = self.query_one(SameAs).command
        if command:
            self.app.copy_to_clipboard(command)
            self.notify(f"copied: {command[:60]}", timeout=2)
        else:
            self.notify("nothing was done yet", timeout=3)

    def action_tour_text(self) -> None:
        """Give the keys to the tour's text."""
        self.query_one("#tour-text").focus()

    def action_tour_hint(self) -> None:
        """Show the step's hint."""
        if self.walk is not None:
            self.show_tour(
                self.walk.step.hint.replace("`", "") or "no hint: read, and go on with F5"
            )

    def action_tour_show(self) -> None:
        """Do the step."""
        if self.walk is not None:
            for command in self.walk.step.commands:
                self.console.command(command)

    def action_tour_go(self, steps: int) -> None:
        """To the next step, or the one before."""
        if self.walk is not None and self.walk.go(steps):
            self.show_tour()
            self.console.look_at_tour()

    def action_help(self) -> None:
        """Show the keys."""
        self.console.show_help()
