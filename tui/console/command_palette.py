"""The entries of the palette: actions by name, tours, experiments, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.app import App, SystemCommand

from ..tours import tour
from . import keymap
from .experiments import EXPERIMENTS, Experiment
from .flows.compare import compare
from .protocols import Console
from .screens.main import MainScreen
from .widgets.pane import TITLES
from .widgets.rows import Rows

_LEFT_OUT = ("main.palette", "main.next", "main.previous")


def commands(app: App[None], console: Console, main: MainScreen) -> Iterator[SystemCommand]:
    """Yield the actions of the keymap, a comparison, tours, experiments, themes, and quit.

    `app` and `console` are the same object: as Textual knows it, and as the console's parts do.
    """

    def action(name: str) -> Callable[[], None]:
        def run() -> None:
            app.call_later(main.run_action, name)

        return run

    def tour_of(name: str) -> Callable[[], None]:
        def run() -> None:
            main.tour.wanted = name
            app.exit()

        return run

    for binding in keymap.MAIN:
        if binding.id not in _LEFT_OUT:
            yield SystemCommand(
                f"{binding.description} ({binding.key_display or binding.key})",
                binding.tooltip,
                action(binding.action),
            )
    yield SystemCommand(
        "Compare on every architecture",
        "the shown call site: compiled, disabled and enabled",
        lambda: compare(console),
    )
    for name in tour.names():
        title = tour.load(name).title
        yield SystemCommand(f"Tour: {title}", "a lesson on its own machine", tour_of(name))
    for each in EXPERIMENTS:
        yield SystemCommand(f"Experiment: {each.title}", each.about, _experiment(console, each))
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
        ip = console.view.ip
        if "{ip}" in experiment.command and ip is None:
            console.notify("show a call site first", timeout=3)
            return
        console.command(experiment.command.format(ip=f"0x{ip or 0:x}"))

    return run
