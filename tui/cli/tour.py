"""`dynftrace tour`: list the tours, take one in the console, or check them all."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ...core.errors import DynftraceError, UsageError
from ..saved import settings
from ..tours import tour as tours
from ..tours.progress import Progress
from ..tours.tour import Tour
from ..tours.walk import Walk
from .exit_status import FAILED
from .options import completion_of, theme_option


@click.command(name="tour", short_help="Learn by doing: tours through ftrace.")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=completion_of(tours.names))
@click.option("--check", is_flag=True, help="Do each step by its own commands and check it.")
@click.option("--step", type=click.IntRange(1), metavar="N", help="Begin with step N.")
@theme_option
@click.pass_context
def tour_command(
    context: click.Context, name: str | None, check: bool, step: int | None, theme: str | None
) -> None:
    """Tours: each step explains something, asks you to do it, and checks that you did.

    Without a NAME, list the tours and your progress. With a NAME, open the console on the
    tour's machine, at the step you had reached. --check walks one tour, or all of them.
    """
    if check:
        names = [name] if name is not None else tours.names()
        failed = [each for each in names if not _walked(tours.load(each))]
        context.exit(FAILED if failed else 0)
    if name is None:
        for line in _listing():
            print(line)
        return
    settings.check(context)
    tour = tours.load(name)
    if step is not None and step > len(tour.steps):
        raise UsageError(f"step {step} does not exist: tour {name} has steps 1-{len(tour.steps)}")
    progress = Progress()
    begin = progress.next(tour) if step is None else step - 1
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DynftraceError("a tour needs a terminal; --check works without one")
    from ..console.run import run_console

    walk = Walk(tour, begin)
    source = settings.origin(context, "theme")
    context.exit(
        run_console(tour.open, theme_name=theme, theme_from=source, walk=walk, progress=progress)
    )


def _listing() -> Iterator[str]:
    """Yield two lines for each tour: name, progress and title, then the summary."""
    loaded = [tours.load(name) for name in tours.names()]
    progress = Progress()
    width = max((len(tour.name) for tour in loaded), default=0)
    for tour in loaded:
        yield f"{tour.name:<{width}}  {progress.of(tour)}/{len(tour.steps)}  {tour.title}"
        yield f"{'':<{width}}       {tour.summary}"


def _walked(tour: Tour) -> bool:
    """Walk `tour` and print how each step went; return whether all steps passed."""
    passed = True
    for number, (title, reason) in enumerate(check_tour(tour), 1):
        print(f"{'FAILED' if reason else 'ok':<6}  {tour.name} {number}  {title}")
        if reason:
            print(f"        {reason}")
            passed = False
    return passed


def check_tour(tour: Tour) -> Iterator[tuple[str, str]]:
    """Do each step by its own commands; yield its title, and its error or "".

    It is an error too if the checks already hold before the step: they would prove nothing.
    """
    from ...core.shell.shell import Shell

    session = tour.open()
    shell, walk = Shell(session), Walk(tour)
    while True:
        step = walk.step
        if step.checks and walk.look(shell.execute):
            yield step.title, "its checks already hold before the step"
        else:
            for command in step.commands:
                walk.did(shell.execute(command).effects)
            held = walk.look(shell.execute)
            yield step.title, "" if held else "its checks do not hold after its commands"
        if not walk.go(1):
            return
