"""`dynftrace tour`: the tours there are, one of them in the console, or all of them checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ..core.errors import DynftraceError, UsageError
from . import config
from . import tour as tours
from .tour import Tour
from .tourwalk import Progress, Walk


def _begun_tours(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    return [name for name in tours.names() if name.startswith(begun)]


@click.command(name="tour", short_help="Learn by doing: tours through ftrace.")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_begun_tours)
@click.option("--check", is_flag=True, help="Do each step by its own commands, and see it done.")
@click.option("--step", type=click.IntRange(1), metavar="N", help="Begin with step N.")
@click.option("--theme", metavar="NAME", help="Colours of the console, such as dynftrace-light.")
@click.pass_context
def tour_command(
    context: click.Context, name: str | None, check: bool, step: int | None, theme: str | None
) -> None:
    """Tours: each step tells something, has you do something, and sees that you did.

    Without a NAME lists the tours, with how far you have come; with one opens the console
    on the tour's machine, at the step you were at. --check walks one tour, or all.
    """
    if check:
        names = [name] if name is not None else tours.names()
        failed = [each for each in names if not _walked(tours.load(each))]
        context.exit(1 if failed else 0)
    if name is None:
        for line in _listing():
            print(line)
        return
    config.check(context)
    tour = tours.load(name)
    if step is not None and step > len(tour.steps):
        raise UsageError(f"the tour {name} has {len(tour.steps)} steps")
    progress = Progress()
    begin = progress.next(tour) if step is None else step - 1
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DynftraceError("a tour needs a terminal; --check walks it without one")
    from .console import run_console

    walk = Walk(tour, begin)
    source = config.origin(context, "theme")
    context.exit(
        run_console(tour.open, theme_name=theme, theme_from=source, walk=walk, progress=progress)
    )


def _listing() -> Iterator[str]:
    loaded = [tours.load(name) for name in tours.names()]
    progress = Progress()
    width = max((len(tour.name) for tour in loaded), default=0)
    for tour in loaded:
        yield f"{tour.name:<{width}}  {progress.of(tour)}/{len(tour.steps)}  {tour.title}"
        yield f"{'':<{width}}       {tour.summary}"


def _walked(tour: Tour) -> bool:
    """Walk `tour`, saying how each step went; whether all went well."""
    well = True
    for number, (title, reason) in enumerate(check_tour(tour), 1):
        print(f"{'FAILED' if reason else 'ok':<6}  {tour.name} {number}  {title}")
        if reason:
            print(f"        {reason}")
            well = False
    return well


def check_tour(tour: Tour) -> Iterator[tuple[str, str]]:
    """Do each step by its own commands: its title, and what went wrong or nothing.

    A check that holds before anything was done would tell nobody anything: it fails too.
    """
    from ..core.shell.shell import Shell

    session = tour.open()
    shell, walk = Shell(session), Walk(tour)
    while True:
        step = walk.step
        if step.checks and walk.look(shell.execute):
            yield step.title, "its checks hold before anything was done"
        else:
            for command in step.commands:
                shell.execute(command)
                walk.told(command)
            held = walk.look(shell.execute)
            yield step.title, "" if held else "its commands do not fulfil its checks"
        if not walk.go(1):
            return
