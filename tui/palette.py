"""What the palette offers: actions by their names, tours, experiments, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from . import keymap, tour
from .experiments import EXPERIMENTS, Experiment

if TYPE_CHECKING:
    from .app import ConsoleApp

_LEFT_OUT = ("main.palette", "main.next", "main.previous")


def commands(app: ConsoleApp) -> Iterator[SystemCommand]:
    """The actions of the keymap, a comparison, tours, experiments, themes, and the way out."""
    for binding in keymap.MAIN:
        if binding.id not in _LEFT_OUT:
            yield SystemCommand(
                f"{binding.description} ({binding.key_display or binding.key})",
                binding.tooltip,
                _action(app, binding.action),
            )
    yield SystemCommand(
        "Compare on every architecture",
        "the call site that is shown, compiled, disabled and enabled",
        app.compare,
    )
    for name in tour.names():
        title = tour.load(name).title
        yield SystemCommand(f"Tour: {title}", "a lesson, on its machine", _tour(app, name))
    for each in EXPERIMENTS:
        yield SystemCommand(f"Experiment: {each.title}", each.about, _experiment(app, each))
    yield SystemCommand("Theme", "another theme, light ones too", app.action_change_theme)
    yield SystemCommand("Quit (ctrl+q)", "quit", app.exit)


def _tour(app: ConsoleApp, name: str) -> Callable[[], None]:
    def run() -> None:
        app.wanted_tour = name
        app.exit()

    return run


def _experiment(app: ConsoleApp, experiment: Experiment) -> Callable[[], None]:
    def run() -> None:
        if "{ip}" in experiment.command and app.view.ip is None:
            app.notify("show a call site first", timeout=3)
            return
        app.command(experiment.command.format(ip=f"0x{app.view.ip or 0:x}"))

    return run


def _action(app: ConsoleApp, action: str) -> Callable[[], None]:
    def run() -> None:
        app.call_later(app.main.run_action, action)

    return run
