"""The console: an app around one session.

The app opens at once and paints its frame. Meanwhile the session opens in the machine's
thread, so nothing heavy is imported here: methods import what only a key or a command needs.
A task of several steps, for example a tour, is a flow with its own state (`flows/`). The app
passes views, answers and messages on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, work
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.color import Color
from textual.command import CommandPalette, Provider
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

from ...core.errors import UsageError
from ..present.line import Line, line
from ..present.view import Done, Status, View
from . import keymap, theme
from .flows.files import FileFlow
from .flows.patching import PatchFlow
from .flows.race import RaceFlow
from .flows.report import ReportFlow
from .flows.save import SaveFlow
from .flows.step_into import StepIntoFlow
from .flows.tour import TourFlow
from .messages import (
    Answered,
    DrawingWanted,
    ExportWanted,
    TimeWanted,
    TourWanted,
    ViewReady,
)
from .palette_provider import InOrder
from .screens.main import MainScreen
from .screens.moment import MomentScreen
from .screens.tourkeys import TOURING
from .terminal_input import guard_parser
from .typeahead import TypeAhead
from .widgets.equivalent_command import EquivalentCommand
from .widgets.rows import Rows
from .worker import Driver, Runner

if TYPE_CHECKING:
    from ..saved.session_store import SessionStore
    from ..tours.progress import Progress
    from ..tours.walk import Walk
    from .screens.box import Box

FRAMES = 10
"""Views shown per second while the machine runs."""

_SIGN = 4
"""Cells of the sign and the margins of an error that has a row for itself."""

T = TypeVar("T")

guard_parser()


class ConsoleApp(TypeAhead):
    """The console; `start` makes the driver, and is called in the machine's thread."""

    CSS_PATH = "console.tcss"
    TITLE = "dynftrace"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.APP]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {InOrder}

    def __init__(
        self,
        start: Callable[[], Driver],
        walk: Walk | None = None,
        progress: Progress | None = None,
        store: SessionStore | None = None,
        recorded: bool = False,
    ) -> None:
        """`walk` is a tour to take; `progress` is where its finished steps are recorded.

        `store` saves the session; `start` then opens that session. `recorded` is whether the
        driver shows a recorded trace, without a machine.
        """
        super().__init__(lambda widget: isinstance(widget, Rows))
        halt = store.stop if store is not None else lambda: None
        self.runner = Runner(start, self._wake, halt)
        self._store = store
        self.view = View()
        self.tour = TourFlow(self, walk, progress)
        self.stepping = StepIntoFlow(self)
        self.patching = PatchFlow(self, self.stepping)
        self.race = RaceFlow(self)
        self.main = MainScreen(
            self,
            self.tour,
            self.stepping,
            self.patching,
            None if store is None else store.name,
            recorded=recorded,
        )
        self.saving = SaveFlow(self, self.main, store)
        self.reports = ReportFlow(self)
        self._unread: Box | None = None
        """An error too long for its row; a box shows it unless a report says more."""
        self.files = FileFlow(self, self)
        self.set_class(walk is not None, TOURING)
        for each in theme.THEMES:
            self.register_theme(each)
        self.theme = theme.DARK.name

    # Called by Textual

    def get_default_screen(self) -> Screen[None]:
        """Return the main screen."""
        return self.main

    def choose_theme(self, name: str, where: str = "") -> None:
        """Use the theme `name`. Raises `UsageError`; `where` begins the message."""
        if name not in self.available_themes:
            known = ", ".join(sorted(self.available_themes))
            raise UsageError(f"{where}unknown theme {name!r} (choose from: {known})")
        self.theme = name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the variable `faint`, a blend, for themes that do not define it."""
        theme = self.current_theme
        if theme.foreground is None or theme.background is None or "ansi" in theme.name:
            return {"faint": "ansi_bright_black"}
        blend = Color.parse(theme.background).blend(Color.parse(theme.foreground), 0.6)
        return {"faint": blend.hex}

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything again, in the colours of a new theme.

        Until the first screen opens, its style sheet is not parsed: only the variables change.
        """
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_mount(self) -> None:
        """Paint first, then open the session."""
        self.app_resume_signal.subscribe(self, lambda _: self._draw_all())
        self.call_after_refresh(self._drive)
        self.set_interval(1 / FRAMES, self.drain)

    def _draw_all(self) -> None:
        """Draw everything again: while suspended, other programs wrote to the terminal."""
        self.refresh(layout=True)
        for screen in self.screen_stack:
            for widget in screen.walk_children(Widget):
                widget.refresh()

    def on_unmount(self) -> None:
        """End the machine's thread."""
        self.runner.close()

    @work(thread=True, exclusive=True, group="machine")
    def _drive(self) -> None:
        self.runner.loop()

    async def on_event(self, event: events.Event) -> None:
        """Pause the machine briefly for a key, so that the key is handled first."""
        if isinstance(event, events.Key):
            if event.key == "escape" and self.runner.progress:
                self.runner.interrupt()  # a `back` or a race: the machine stays as it was
                return
            self.runner.give_way()
        await super().on_event(event)

    def post_display_hook(self) -> None:
        """Let the machine run on after the screen was drawn."""
        self.runner.drawn()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return the entries of the palette, those of the focused pane first."""
        from . import command_palette

        return chain(
            command_palette.of_pane(self, self.main),
            command_palette.commands(self, self, self.main),
        )

    def action_command_palette(self) -> None:
        """Open the palette, unless it is open."""
        if not isinstance(self.screen, CommandPalette):
            from . import command_palette

            self.push_screen(CommandPalette(placeholder=command_palette.PLACEHOLDER))

    # Views

    def _wake(self) -> None:
        """Ask, from the machine's thread, for the new view to be shown at once."""
        self.post_message(ViewReady())

    def on_view_ready(self) -> None:
        """Show a new view at once."""
        self.drain()

    def drain(self) -> None:
        """Show the newest view, and pass it to the flows."""
        # The timer may still fire while the app is taken down, when no screen is left.
        if not self.screen_stack:
            return
        self.view = self.runner.take() or self.view
        self.main.show(self.view, self.runner.mode)
        over = self.screen
        store = self._store
        opening = "" if store is None or self.runner.opened else store.progress
        if progress := opening or self.runner.progress:
            result = over if isinstance(over, MomentScreen) else self.main
            result.show_result(progress, "esc or ctrl+c stops", False)
        if isinstance(over, MomentScreen):
            if self.tour.pane is not None:
                over.show_tour(self.tour.pane.todo, self.tour.pane.state)
            over.show(self.view, self.runner.mode)
        self.saving.restore()
        self.tour.watch(self.view, self._panes())
        if self.runner.failure is not None:
            failure, self.runner.failure = self.runner.failure, None
            if self.runner.opened:
                self.notify(failure, title="stopped", severity="error")
            else:
                self.exit(return_code=1, message=f"dynftrace: {failure}")
        if self._plain:
            self.reports.show(self.view.reports)
        if self._unread is not None and self.runner.idle:  # the view is that after the command
            unread, self._unread = self._unread, None
            if self._plain:
                self.push_screen(unread)
        self.patching.show(self.view)

    # For screens and flows (see `Console`)

    @property
    def at_main(self) -> bool:
        """Whether no other screen is over the main one."""
        return self.screen is self.main

    @property
    def _plain(self) -> bool:
        """Whether no box is open."""
        return self.at_main or isinstance(self.screen, MomentScreen)

    def _panes(self) -> Sequence[int]:
        """Return the numbers of the panes in sight."""
        if isinstance(self.screen, MomentScreen):
            return (self.screen.NUMBER,)
        return self.main.visible_panes()

    def ask(self, job: Callable[[Driver], T], then: Callable[[T], None] | None = None) -> None:
        """Do `job` in the machine's thread, then `then` with its result in this one."""

        def done(finished: Future[T]) -> None:
            if then is not None and not finished.cancelled() and finished.exception() is None:
                self.post_message(Answered(partial(then, finished.result())))

        self.runner.submit(job).add_done_callback(done)

    def on_answered(self, message: Answered) -> None:
        """Hand over the result."""
        message.deliver()

    def open_over(self, screen: Screen[T], then: Callable[[T | None], None] | None = None) -> None:
        """Open `screen` over the others; `then` is called with its result."""
        self.push_screen(screen, then)

    def command(
        self,
        text: str,
        *,
        box: bool = True,
        typed: bool = False,
        then: Callable[[Done], None] | None = None,
    ) -> None:
        """Execute a command of the tracefs shell; with `box`, long output opens a box.

        `typed` is whether the user typed it, so that its paths begin at the current directory.
        """

        before = self.view.status

        def executed(done: Done) -> None:
            self._show(done, box, before)
            if then is not None:
                then(done)

        self.ask(lambda driver: driver.execute(text, typed), executed)

    def _show(self, done: Done, box: bool, before: Status) -> None:
        """Show the result of a command: in its line, at its call site, or in a box.

        `before` is the status before the command.
        """
        from ...core.shell.outcome import RanWorkload, Reached
        from ..present.afterword import afterword, failure
        from ..present.output import output_lines
        from .screens.box import Box

        self.tour.did(done)
        self.stepping.remember_workload(done)
        failed = done.status != 0
        text = failure(done) if failed else done.output
        if done.site is not None:
            text = ""  # its pane shows it
        elif not box:
            text = text.strip().rpartition("\n")[2]
        word = afterword(done, before)
        if failed and word:
            text = f"{text.strip()}: {word}"
        elif not text:
            text = word
        lines = done.output.splitlines()
        ran = any(isinstance(effect, RanWorkload) for effect in done.effects)
        if arrived := any(isinstance(effect, Reached) for effect in done.effects):
            text = lines[0] if lines else text  # the stepping screen has the operands
        raced = self._plain and self.race.show(done)
        boxed = box and done.site is None and len(lines) > 1 and self._plain and not arrived
        boxed = boxed and not raced
        if (boxed or raced) and not failed:
            text = ""  # the box or the screen shows it
        self.main.show_result(done.command, text, failed)
        mistake = done.column if self.at_main else None
        if mistake is not None:
            self.main.correct(done.command, mistake, text.partition("\n")[0])
        if isinstance(self.screen, MomentScreen):
            self.screen.show_result(done.command, text, failed)
        if self.at_main and before.tracer != "nop" and ran:
            self.main.turn_to(4)
        if done.site is not None:
            self.main.go_to(done.site, soon=True)
        elif mistake is not None:
            pass  # the reason is above the word
        elif failed and (len(text) > self.size.width - _SIGN or "\n" in text.strip()):
            said = [line((each, "bad")) for each in text.strip().splitlines()]
            self._unread = Box(done.command, said)
        elif boxed:
            self.push_screen(Box(done.command, output_lines(done), copy=done.output.rstrip("\n")))

    def commands(
        self, texts: Sequence[str], before: Sequence[str], then: Callable[[], None]
    ) -> None:
        """Execute `before` and then `texts`, up to the first failure; show `texts` together."""
        from ...core.shell.outcome import WroteFile
        from ..present.output import output_lines
        from .screens.box import Box

        first = self.view.status

        def executed(driver: Driver) -> list[Done]:
            outcomes: list[Done] = []
            for text in before:
                driver.execute(text)
            for text in texts:
                outcomes.append(driver.execute(text))
                if outcomes[-1].status:
                    break  # after an oops, for example, the next command would fail too
            return outcomes

        def show(outcomes: Sequence[Done]) -> None:
            status = first
            boxed = [done for done in outcomes if done.site is None]
            long = any(done.output.count("\n") > 1 for done in boxed)
            several = sum(bool(done.output) for done in boxed) > 1
            # A refused patch has a report of its own.
            opens = (long or several) and self._plain and not outcomes[-1].status
            for done in outcomes:
                self._show(replace(done, output="") if opens else done, False, status)
                for effect in done.effects:
                    match effect:
                        case WroteFile("current_tracer", text):
                            status = replace(status, tracer=text.strip())
            lines: list[Line] = []
            for done in boxed:
                lines += [line((f"$ {done.command}", "dim"))] if len(boxed) > 1 else []
                lines += [*output_lines(done), *map(line, done.error.splitlines())]
            if opens:
                title = boxed[0].command if len(boxed) == 1 else "show me"
                self.push_screen(Box(title, lines))
            then()

        self.ask(executed, show)

    def turn_to(self, pane: int) -> Sequence[int]:
        """Show a pane of the main screen; return the numbers of the visible ones."""
        self.main.activate(pane)
        return self.main.visible_panes()

    def leave(self) -> None:
        """End this console, to open another."""
        self.exit()

    def go_to(self, ip: int) -> None:
        """Show the call site at `ip` on the main screen."""
        while isinstance(self.screen, MomentScreen):
            self.pop_screen()
        self.main.go_to(ip)

    def show_help(self) -> None:
        """Show the keys of the current screen."""
        if self._plain:
            from .screens.help import HelpBox

            over = isinstance(self.screen, MomentScreen)
            pane = self._panes()[0] if over else self.main.active
            self.push_screen(HelpBox(pane, self.size.width))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a short message in the line of the last command, where it covers nothing.

        While that line is not there, or too short, a toast has the message.
        """
        text = f"{title}: {message}" if title else message
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        line = next(iter(self.screen.query(EquivalentCommand)), None) if self.screen_stack else None
        if line is None or not line.display or len(text) >= self.size.width:
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)
        else:
            line.note(text, severity, seconds)

    # Messages and keys

    def on_save_wanted(self) -> None:
        """Save the session."""
        self.saving.save(self.theme)

    def on_export_wanted(self, message: ExportWanted) -> None:
        """Save rows of the trace."""
        self.files.export(message.export)

    def on_drawing_wanted(self, message: DrawingWanted) -> None:
        """Save a picture."""
        self.files.save_svg(message.svg)

    def on_time_wanted(self, message: TimeWanted) -> None:
        """Move the cursor of the trace."""
        self.main.trace.events.go_to_time(message.instant)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that need a machine while a recorded trace is shown."""
        if self.main.recorded and (action in keymap.OF_MACHINE or parameters == ("map",)):
            return False
        return super().check_action(action, parameters)

    def action_draw(self, kind: str) -> None:
        """Open a picture."""
        if self._plain:
            from .flows.pictures import open_picture

            open_picture(self, kind, self.main.trace.events.time_here())

    def action_race(self) -> None:
        """Race a patch of the shown site against a CPU at each position."""
        self.race.key()

    async def on_tour_wanted(self, message: TourWanted) -> None:
        """Do the action of a tour's key on the main screen."""
        if not self.screen_stack:  # the console is closing
            return
        while isinstance(self.screen, MomentScreen) and message.action != "tour_hint":
            self.pop_screen()
        await self.main.run_action(message.action)

    def pasted(self, text: str) -> None:
        """Open the line with pasted text that begins with `:` (a command) or `/` (a search)."""
        if self.at_main and text[:1] in (":", "/"):
            self.main.open_line(text[0], text[1:].splitlines()[0] if text[1:] else "")
        else:
            self.notify("to paste a command, press : first", timeout=3)

    def action_interrupt(self) -> None:
        """Stop the machine; the app stays."""
        self.runner.interrupt()

    def action_leave(self) -> None:
        """Close the topmost screen; quit on the last one."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit()

    def action_picture(self) -> None:
        """Save a picture of the screen."""
        self.files.picture()
