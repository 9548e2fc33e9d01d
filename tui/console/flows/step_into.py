"""Runs into a function and steps there: from the key to the stepping screen.

Methods import what they need, because imports would delay the first paint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...present.empty_states import NO_WORKLOAD
from ...present.view import Done
from ..protocols import Console


class StepIntoFlow:
    """Picks workloads, runs them, runs into functions, and opens the stepping screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.workload: str | None = None
        """The workload that ran last; it is run again to reach the next function."""

    def remember_workload(self, done: Done) -> None:
        """Remember the workload that a command has run."""
        from ....core.shell.outcome import RanWorkload

        for effect in done.effects:
            if isinstance(effect, RanWorkload):
                self.workload = effect.name

    def pick(self) -> None:
        """Ask for a workload, and run it."""

        def none() -> None:
            self._console.notify(NO_WORKLOAD, timeout=4)

        self._ask_for_workload(lambda name: self._console.command(f"run {name}"), none)

    def into(self, ip: int | None = None) -> None:
        """Run until a CPU reaches the function whose rec.ip is `ip`, by default the one shown."""
        view = self._console.view
        ip = view.ip if ip is None else ip
        index = None if ip is None or view.functions is None else view.functions.find(ip)
        if view.functions is None or index is None:
            self._console.notify("show a call site first", timeout=3)
            return
        name = view.functions.row(index).name
        if self.workload is not None:
            self._run_into(name)
            return

        def picked(workload: str) -> None:
            self.workload = workload
            self._run_into(name)

        self._ask_for_workload(picked, without=lambda: self._run_into(name))

    def visit(self, event: str) -> None:
        """Go to the machine at an event, given by its time and CPU, and step there."""
        from ....core.shell.outcome import WentTo

        if self._console.runner.running:
            self._console.runner.pause()  # otherwise the machine would run on after it has arrived

        def arrived(done: Done) -> None:
            if any(isinstance(effect, WentTo) for effect in done.effects):
                self.open()

        self._console.command(f"goto {event}", box=False, then=arrived)

    def open(self, target: str | None = None) -> None:
        """Open the stepping screen; `target` has the words after `until` that led there."""
        if not self._console.at_main:
            return
        from ..screens.stepping import SteppingScreen

        watch(self._console, 0)
        screen = SteppingScreen(self._console, target)
        self._console.open_over(screen, lambda _: watch(self._console, None))
        if target is not None:
            screen.call_after_refresh(screen.show_result, f"until {target}", "", False)

    def _ask_for_workload(
        self, then: Callable[[str], None], without: Callable[[], None] = lambda: None
    ) -> None:
        """Let the user pick a workload; call `without` if the kernel has none."""
        from ..screens.picker import WorkloadBox

        def found(names: Sequence[str]) -> None:
            if not names:
                without()
            elif self._console.at_main:
                self._console.open_over(
                    WorkloadBox(names), lambda name: None if name is None else then(name)
                )

        self._console.ask(lambda driver: driver.workloads(), found)

    def _run_into(self, name: str) -> None:
        from ....core.shell.outcome import Reached

        if self._console.runner.running:
            self._console.runner.pause()  # otherwise the machine would run on after it has arrived
        target = name if self.workload is None else f"{name} {self.workload}"

        def arrived(done: Done) -> None:
            if any(isinstance(effect, Reached) for effect in done.effects):
                self.open(target)
            else:
                self.workload = None  # a different workload may reach it

        self._console.command(f"until {target}", box=False, then=arrived)


def watch(console: Console, step: int | None) -> None:
    """Make views show the CPU stepped last, or the one `step` after it; None shows no CPU."""
    console.ask(lambda driver: driver.watch(step))
