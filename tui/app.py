"""The console: an app around one session.

It opens at once and paints its frame; the session opens meanwhile in the
machine's thread, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import events, work
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.color import Color
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

from ..core.errors import DynftraceError, UsageError
from . import deliver, keymap, palette, theme
from .keeper import Keeper
from .layout import lay_out, layout_of
from .messages import (
    CandidatesFound,
    CommandDone,
    Compared,
    Exported,
    SessionSaved,
    TourLooked,
    ViewReady,
    WorkloadsFound,
)
from .screens.box import Box
from .screens.help import STEPPING, HelpBox
from .screens.main import MainScreen
from .screens.picker import WorkloadBox
from .screens.report import ReportBox
from .screens.stepping import SteppingScreen
from .spans import line
from .svg import tidy
from .tourwalk import Progress, Walk
from .traceexport import Export
from .typeahead import TypeAhead
from .view import Report, View
from .wholefile import write_whole
from .widgets.command_line import CommandLine
from .widgets.rows import Rows
from .worker import Driver, Runner

FRAMES = 10
"""Views shown in a second while the machine runs."""

T = TypeVar("T")


class ConsoleApp(TypeAhead):
    """The console; `start` makes the driver, and is called in the machine's thread."""

    CSS_PATH = "console.tcss"
    TITLE = "dynftrace"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.APP]

    def __init__(
        self,
        start: Callable[[], Driver],
        walk: Walk | None = None,
        progress: Progress | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`walk` is a tour to be taken; how far one comes is kept in `progress`.

        `keeper` keeps the session, which `start` opens by it.
        """
        super().__init__(lambda widget: isinstance(widget, Rows))
        self.keeper = keeper
        self._layout = None if keeper is None else keeper.layout
        self.walk = walk
        self._progress = progress
        self._looked: View | None = None
        self.wanted_tour: str | None = None
        """A tour to be taken when this console has ended: it has another machine."""
        halt = keeper.stop if keeper is not None else lambda: None
        self.runner = Runner(start, self._wake, halt)
        self.view = View()
        self.main = MainScreen(walk)
        self._reported: list[Report] = []
        self._into: str | None = None
        """The function to step into, until a workload is picked that calls it."""
        self._target: str | None = None
        """The words behind `until` that are on their way to it."""
        self.workload: str | None = None
        """The workload that ran last."""
        self._wanted: int | None = None
        for each in theme.THEMES:
            self.register_theme(each)
        self.theme = theme.DARK.name

    def get_default_screen(self) -> Screen[None]:
        """The main screen is the first."""
        return self.main

    def choose_theme(self, name: str, where: str = "") -> None:
        """Show the theme `name`; raises `UsageError`, which begins by `where`, if there is none."""
        if name not in self.available_themes:
            known = ", ".join(sorted(self.available_themes))
            raise UsageError(f"{where}no theme {name!r}; there is: {known}")
        self.theme = name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Themes that do not know the console's own variable get a blend."""
        theme = self.current_theme
        if theme.foreground is None or theme.background is None or "ansi" in theme.name:
            return {"faint": "ansi_bright_black"}
        blend = Color.parse(theme.background).blend(Color.parse(theme.foreground), 0.6)
        return {"faint": blend.hex}

    def on_mount(self) -> None:
        """Paint first, then open the session."""
        self.app_resume_signal.subscribe(self, lambda _: self._draw_all())
        self.call_after_refresh(self._drive)
        self.set_interval(1 / FRAMES, self.drain)

    def _draw_all(self) -> None:
        """Draw everything: a shell has had the terminal, and what it left is no longer known."""
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
        """Have the machine give way to a key."""
        if isinstance(event, events.Key):
            self.runner.give_way()
        await super().on_event(event)

    # From the machine's thread

    def _wake(self) -> None:
        self.post_message(ViewReady())

    def _when_done(self, future: Future[T], message: Callable[[T], Message]) -> None:
        def done(finished: Future[T]) -> None:
            if not finished.cancelled() and finished.exception() is None:
                self.post_message(message(finished.result()))

        future.add_done_callback(done)

    # To the screen

    def on_view_ready(self) -> None:
        """Show what is new."""
        self.drain()

    def drain(self) -> None:
        """Show the newest view, and a report that was not shown yet."""
        # The timer may still come while the app is taken down, when no screen is left.
        if not self.screen_stack:
            return
        view = self.runner.take()
        if view is not None:
            self.view = view
        self.main.show(self.view, self.runner.mode)
        if isinstance(self.screen, SteppingScreen):
            self.screen.show(self.view, self.runner.mode)
        self._restore_layout()
        self.main.show_tour()
        if self.walk is not None and self.runner.idle and self.view != self._looked:
            self.look_at_tour()
        if self.runner.failure is not None:
            failure, self.runner.failure = self.runner.failure, None
            self._failed(failure)
        self._next_report()

    def _restore_layout(self) -> None:
        if self._layout is None or self.view.functions is None or self.keeper is None:
            return
        layout, self._layout = self._layout, None
        try:
            lay_out(self.main, layout)
        except UsageError as error:
            self.notify(str(error), title="not as it was saved", severity="warning")
        if self.keeper.differs:
            self.notify(self.keeper.differs, title="not as it was saved", severity="warning")

    def on_save_wanted(self) -> None:
        """Keep the session."""
        keeper = self.keeper
        if keeper is None:
            self.notify("dynftrace --session NAME keeps its session", timeout=4)
            return
        layout = layout_of(self.main, self.theme)

        def save(driver: Driver) -> SessionSaved:
            try:
                return SessionSaved(keeper.save(layout), False)
            except DynftraceError as error:
                return SessionSaved(str(error), True)

        self._when_done(self.runner.submit(save), lambda message: message)

    def on_session_saved(self, message: SessionSaved) -> None:
        """Say so."""
        if message.failed:
            self.notify(message.reason, title="the session is not kept", severity="error")
        elif message.reason:
            self.notify(message.reason, severity="warning")
        elif self.keeper is not None:
            self.notify(f"session {self.keeper.name} is kept", timeout=3)

    def _failed(self, reason: str) -> None:
        if not self.runner.opened:
            self.exit(return_code=1, message=f"dynftrace: {reason}")
        else:
            self.notify(reason, title="stopped", severity="error")

    def _next_report(self) -> None:
        if not self._plain:
            return
        for report in self.view.reports:
            # By identity: after a reboot the same report may come again.
            if not any(report is shown for shown in self._reported):
                self._reported.append(report)
                self._open(report)
                return

    @property
    def _plain(self) -> bool:
        """Whether no box is open."""
        return self.screen is self.main or isinstance(self.screen, SteppingScreen)

    def _open(self, report: Report) -> None:
        table, ip = self.view.functions, report.ip
        leads = table is not None and ip is not None and table.find(ip) is not None
        box = ReportBox(report, leads=leads)
        self.push_screen(box, lambda answer: self._answer(report, answer))

    def _answer(self, report: Report, answer: str | None) -> None:
        if answer == "reboot":
            self.command("reboot")
        elif answer == "site" and report.ip is not None:
            if isinstance(self.screen, SteppingScreen):
                self.screen.dismiss(None)
            self.main.go_to(report.ip)

    def on_command_done(self, message: CommandDone) -> None:
        """Show what became of a command: in its line, or in a box when it says much."""
        done = message.done
        if self.walk is not None:
            self.walk.told(done.command)
            self.look_at_tour()
        failed = done.status != 0
        text = done.error if failed and done.error else done.output
        text = text.removeprefix("dynftrace: ")
        if not message.box:
            text = text.strip().rpartition("\n")[2]
        self.main.told(done.command, text, failed)
        if done.column is not None and self.screen is self.main:
            self.main.correct(done.command, done.column, text.partition("\n")[0])
        if isinstance(self.screen, SteppingScreen):
            self.screen.told(done.command, text, failed)
        if not failed and done.command.startswith("run "):
            self.workload = done.command.split()[1]
        if self._target is not None and done.command == f"until {self._target}":
            target, self._target = self._target, None
            if failed:
                self.workload = None  # another may get there
            else:
                self.open_stepping(target)
            return
        if done.ip is not None:
            self.main.go_to(done.ip, soon=True)
        elif message.box and len(done.output.splitlines()) > 1 and self._plain:
            self.push_screen(Box(done.command, [line(each) for each in done.output.splitlines()]))

    def on_candidates_found(self, message: CandidatesFound) -> None:
        """Show how the command line can go on."""
        self.main.query_one(CommandLine).offer(message.text, message.words, message.hint)

    def on_workloads_found(self, message: WorkloadsFound) -> None:
        """Let the user pick one."""

        into, self._into = self._into, None

        def picked(name: str | None) -> None:
            if name is not None and into is not None:
                self.workload = name
                self._run_into(into)
            elif name is not None:
                self.command(f"run {name}")

        if into is not None and not message.names:
            self._run_into(into)
        elif self.screen is self.main and message.names:
            self.push_screen(WorkloadBox(message.names), picked)

    def pasted(self, text: str) -> None:
        """Open the command line on a pasted command, or the search on a search."""
        if self.screen is self.main and text[:1] in (":", "/"):
            self.main.open_line(text[0], text[1:].splitlines()[0] if text[1:] else "")
        else:
            self.notify("a command is pasted with its colon, or behind one", timeout=3)

    # To the machine's thread

    def command(self, text: str, *, box: bool = True) -> None:
        """Execute a command of the tracefs shell; with `box`, long output opens one."""
        self._when_done(
            self.runner.submit(lambda driver: driver.execute(text)),
            lambda done: CommandDone(done, box),
        )

    def look_at(self, ip: int) -> None:
        """Show the call site at `ip`; of several wishes at once the last counts."""
        self._wanted = ip

        def look(driver: Driver) -> None:
            if self._wanted == ip:
                driver.look_at(ip)

        self.runner.submit(look)

    def look_at_tour(self) -> None:
        """See whether the tour's step is done."""
        walk, self._looked = self.walk, self.view
        if walk is None or walk.done:
            return
        at, step, ran = walk.at, walk.step, walk.ran
        self._when_done(
            self.runner.submit(lambda driver: step.done(ran, driver.execute)),
            lambda done: TourLooked(at, done),
        )

    def on_tour_looked(self, message: TourLooked) -> None:
        """Show that the step is done, and keep that one has come so far."""
        walk = self.walk
        if walk is None or not message.done:
            return
        walk.found(message.at, True)
        self.main.show_tour()
        if self._progress is not None:
            try:
                self._progress.reached(walk.tour, message.at + 1)
            except DynftraceError as error:
                self.notify(str(error), title="progress is not kept", severity="error")

    def complete(self, text: str) -> None:
        """Find candidates for the command line."""
        self._when_done(
            self.runner.submit(lambda driver: (driver.complete(text), driver.preview(text))),
            lambda found: CandidatesFound(text, *found),
        )

    def compare(self) -> None:
        """Compare the function whose site is shown on every port."""
        view = self.view
        index = None if view.ip is None or view.functions is None else view.functions.find(view.ip)
        if view.functions is None or index is None:
            self.notify("show a call site first", timeout=3)
            return
        name = view.functions.row(index).name.lstrip(".")

        def compared(driver: Driver) -> list[str]:
            from .compare import compared

            try:
                return compared(name)
            except DynftraceError as error:
                return [str(error)]

        self._when_done(self.runner.submit(compared), lambda lines: Compared(name, lines))

    def on_compared(self, message: Compared) -> None:
        """Show the comparison."""
        if self.screen is self.main:
            title = f"{message.function} on every architecture"
            self.push_screen(Box(title, [line(each) for each in message.lines]))

    def export(self, export: Export) -> None:
        """Save rows of the trace in the working directory, or where a browser does; in the
        machine's thread, as it takes seconds where they are many."""
        web = self.is_web

        def save(_: Driver) -> Exported:
            if web:
                return Exported(f"{len(export):,} rows", False, "".join(export.text()))
            try:
                path = export.save(Path())
            except DynftraceError as error:
                return Exported(str(error), True)
            return Exported(f"saved {path}: {len(export):,} rows", False)

        self._when_done(self.runner.submit(save), lambda saved: saved)

    def on_exported(self, message: Exported) -> None:
        """Tell what became of it."""
        if message.download:
            deliver.download(self, message.download, ".txt", "text/plain")
        severity: SeverityLevel = "error" if message.failed else "information"
        self.notify(message.text, timeout=3, severity=severity)

    def pick_workload(self) -> None:
        """Fetch the workloads, then let the user pick one."""
        self._when_done(self.runner.submit(lambda driver: driver.workloads()), WorkloadsFound)

    def step_into(self, ip: int | None = None) -> None:
        """Run until the function whose rec.ip is `ip`, or that of the site shown, is reached."""
        view = self.view
        ip = view.ip if ip is None else ip
        index = None if ip is None or view.functions is None else view.functions.find(ip)
        if view.functions is None or index is None:
            self.notify("show a call site first", timeout=3)
            return
        name = view.functions.row(index).name
        if self.workload is None:
            self._into = name
            self.pick_workload()
        else:
            self._run_into(name)

    def _run_into(self, name: str) -> None:
        if self.runner.running:
            self.runner.pause()  # it would run on from there
        self._target = name if self.workload is None else f"{name} {self.workload}"
        self.command(f"until {self._target}", box=False)

    def open_stepping(self, target: str | None = None) -> None:
        """Show the stepping screen; `target` is where it runs on to, behind `until`."""
        if self.screen is not self.main:
            return
        self.watch_cpu(0)
        screen = SteppingScreen(target)
        self.push_screen(screen, lambda _: self.watch_cpu(None))
        if target is not None:
            screen.call_after_refresh(screen.told, f"until {target}", "", False)

    def watch_cpu(self, step: int | None) -> None:
        """Have views tell of a CPU: the current one's number plus `step`, or of none."""
        self.runner.submit(lambda driver: driver.watch(step))

    def toggle_run(self) -> None:
        """Run, or pause."""
        if self.runner.running:
            self.runner.pause()
        else:
            self.runner.run()

    # Actions

    def action_interrupt(self) -> None:
        """Stop the machine; the app stays."""
        self.runner.interrupt()

    def action_leave(self) -> None:
        """Close the topmost screen; quit on the last."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit()

    def action_picture(self) -> None:
        """Save the screen as dynftrace-N.svg in the working directory, or where a browser does."""
        picture = tidy(self.export_screenshot(title=self.TITLE, simplify=True))
        if self.is_web:
            deliver.download(self, picture, ".svg", "image/svg+xml")
            return
        path = deliver.free_path(Path(), ".svg")
        try:
            write_whole(path, picture)
        except DynftraceError as error:
            self.notify(str(error), severity="error")
        else:
            self.notify(f"saved {path}", timeout=3)

    def show_help(self) -> None:
        """Show the keys."""
        if self._plain:
            pane = STEPPING if isinstance(self.screen, SteppingScreen) else self.main.active
            self.push_screen(HelpBox(pane, self.size.width))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers."""
        return palette.commands(self)
