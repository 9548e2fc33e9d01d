"""`dynftrace record`: a movie of the console or the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..files.status_line import StatusLine
from ..tours import course
from .options import completion_of, machine_options, output_option, size_option

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ..pictures.movie import Movie

LONGEST_PAUSE_S = 60


@click.command(name="record", short_help="Write a movie: an asciinema cast or animated SVG.")
@click.argument(
    "tour", required=False, metavar="[TOUR]", shell_complete=completion_of(course.names)
)
@machine_options
@click.option("-c", "commands", metavar="CMDS", help="Commands to type, one on each line.")
@click.option("--shell", is_flag=True, help="Record the tracefs shell instead of the console.")
@size_option("100x30")
@click.option("--theme", metavar="NAME", help="Colours of the console.")
@click.option(
    "--pause",
    type=click.FloatRange(0.1, LONGEST_PAUSE_S),
    metavar="SECONDS",
    default=1.5,
    show_default=True,
    help="Time for which the result of a command is shown.",
)
@output_option("File to write, NAME.cast or NAME.svg; an existing file is replaced.")
@click.pass_context
def record_command(
    context: click.Context,
    tour: str | None,
    commands: str | None,
    shell: bool,
    size: str,
    theme: str | None,
    pause: float,
    output: Path,
    open_session: Callable[[], Session],
) -> None:
    """Type CMDS into the console, or take a TOUR, and write what the screen shows.

    A name that ends in .cast is an asciinema cast; one that ends in .svg is an animated
    picture. Time runs by a fixed script: the same commands give the same file on every host.
    """
    from ..files.whole_file import write_whole
    from ..pictures.movie import animated, cast

    forms = {".cast": cast, ".svg": animated}
    if output.suffix not in forms:
        raise click.UsageError(f"the format of {output} is unknown: end its name in .cast or .svg")
    if (tour is None) == (commands is None):
        raise click.UsageError("give either a TOUR or -c CMDS")
    ms = round(pause * 1000)
    if tour is None:
        movie = _of_commands(open_session, commands or "", shell, size, theme, ms)
    else:
        from .options import MACHINE, flag, given

        for name in ("shell", *MACHINE):
            if given(context, name):
                raise click.UsageError(f"{flag(name)} does not apply: a tour has its own machine")
        movie = _of_tour(tour, size, theme, ms)
    write_whole(output, forms[output.suffix](movie))


def _of_commands(
    open_session: Callable[[], Session],
    commands: str,
    shell: bool,
    size: str,
    theme: str | None,
    ms: int,
) -> Movie:
    from ..console.driver import SessionDriver
    from ..pictures.picture import parse_size
    from ..pictures.recorder import record_console, record_shell
    from .prompt import prompt

    cells = parse_size(size)
    typed = [line.strip() for line in commands.splitlines() if line.strip()]
    if shell:
        if theme is not None:
            raise click.UsageError("--theme applies to the console only: leave out --shell")
        return record_shell(open_session(), prompt, typed, cells, ms)
    session = open_session()
    status = StatusLine("commands", len(typed))
    return record_console(
        lambda: SessionDriver(session), typed, cells, ms, theme_name=theme, done=status.step
    )


def _of_tour(name: str, size: str, theme: str | None, ms: int) -> Movie:
    from ..console.driver import SessionDriver
    from ..pictures.picture import parse_size
    from ..pictures.recorder import record_console
    from ..tours.walk import Walk

    walk = Walk(course.load_path(course.find(name).paths[0]))
    session = walk.open()
    driver = SessionDriver(session)
    status = StatusLine("steps", len(walk.tour.steps))
    return record_console(
        lambda: driver, (), parse_size(size), ms, walk=walk, theme_name=theme, done=status.step
    )
