"""The entries of the palette: actions by name, tours, experiments, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from textual.app import App, SystemCommand

from ..tours import course
from . import keymap
from .experiments import EXPERIMENTS, Experiment
from .flows.compare import compare
from .protocols import Console
from .screens.main import MainScreen
from .widgets.pane import TITLES
from .widgets.rows import Rows

PLACEHOLDER = "type to search: tour, lab, experiment, or an action"

_LEFT_OUT = ("main.palette", "main.next", "main.previous")


def commands(app: App[None], console: Console, main: MainScreen) -> Iterator[SystemCommand]:
    """Yield tours, labs, experiments, a comparison, the actions of the keymap, themes, and quit.

    `app` and `console` are the same object: as Textual knows it, and as the console's parts do.
    """

    def action(name: str) -> Callable[[], None]:
        def run() -> None:
            app.call_later(main.run_action, name)

        return run

    def lesson(path: Path) -> Callable[[], None]:
        def run() -> None:
            main.tour.wanted = path
            app.exit()

        return run

    courses = () if main.recorded else (("Tour", course.TOURS), ("Lab", course.LABS))
    for kind, lessons in courses:
        for path in lessons.paths:
            each = course.load_path(path)
            yield SystemCommand(f"{kind}: {each.title}", each.summary, lesson(path))
    for experiment in EXPERIMENTS:
        if experiment.title in console.view.experiments:
            yield SystemCommand(
                f"Experiment: {experiment.title}",
                experiment.about,
                _experiment(console, experiment),
            )
    if not main.recorded:
        yield SystemCommand(
            "Compare on every architecture",
            "the shown call site: compiled, disabled and enabled",
            lambda: compare(console),
        )
    for binding in keymap.MAIN:
        needs = binding.action in keymap.OF_MACHINE or binding.id in ("main.map", "main.race")
        if binding.id not in _LEFT_OUT and not (main.recorded and needs):
            yield SystemCommand(
                f"{binding.description} ({binding.key_display or binding.key})",
                binding.tooltip,
                action(binding.action),
            )
    yield SystemCommand("Theme", "choose another theme", app.action_change_theme)
    yield SystemCommand("Quit (ctrl+q)", "quit", app.exit)


def of_pane(app: App[None], main: MainScreen) -> Iterator[SystemCommand]:
    """Yield the actions of the pane that has the focus."""
    rows = main.query_one(f"#pane{main.active}").query(Rows).first()

    def action(name: str) -> Callable[[], None]:
        def run() -> None:
            app.call_later(rows.run_action, name)

        return run

    for binding in keymap.OF_PANE[main.active]:
        yield SystemCommand(
            f"{binding.tooltip[:1].upper()}{binding.tooltip[1:]} ({app.get_key_display(binding)})",
            f"in this pane, {TITLES[main.active - 1]}",
            action(binding.action),
        )


def _experiment(console: Console, experiment: Experiment) -> Callable[[], None]:
    def run() -> None:
        ip, functions = console.view.ip, console.view.functions
        row = None if ip is None or functions is None else functions.find(ip)
        if "{ip}" not in experiment.command:
            console.command(experiment.command)
        elif functions is None or row is None:
            console.notify("show a call site first", timeout=3)
        else:
            name = functions.row(row).name
            console.command(experiment.command.format(ip=f"{ip:#x}", name=name))

    return run
