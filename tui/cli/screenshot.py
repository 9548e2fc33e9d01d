"""`dynftrace screenshot`: a picture of the console as an SVG file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import (
    completion_of,
    first_commands_option,
    machine_options,
    output_option,
    size_option,
)

if TYPE_CHECKING:
    from ...core.session.session import Session


def _screens() -> Iterable[str]:
    """Return the names of the screens; this loads Textual, unlike other completions."""
    from ..pictures.picture import POSES

    return POSES


@click.command(name="screenshot", short_help="Write a picture of the console as SVG.")
@machine_options
@first_commands_option
@click.option(
    "--screen",
    metavar="NAME",
    default="main",
    show_default=True,
    help="Screen to show; an unknown name lists the valid ones.",
    shell_complete=completion_of(_screens),
)
@size_option("120x40")
@click.option("--theme", metavar="NAME", help="Colours of the picture; none if NO_COLOR is set.")
@output_option("SVG file to write; an existing file is replaced.")
def screenshot_command(
    commands: str,
    screen: str,
    size: str,
    theme: str | None,
    output: Path,
    open_session: Callable[[], Session],
) -> None:
    """Execute CMDS and write a picture of the console as SVG."""
    from ..files.whole_file import write_whole
    from ..pictures.picture import parse_size, take_picture

    picture = take_picture(open_session, commands, screen, parse_size(size), theme)
    write_whole(output, picture)
