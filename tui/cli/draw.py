"""`dynftrace draw`: a picture of the machine or its trace as an SVG file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import check_recorded, machine_options, opened, trace_option

if TYPE_CHECKING:
    from ..saved.machine_options import MachineOptions


@click.command(name="draw", short_help="Write a map, CPU lanes, flame graph or histogram as SVG.")
@machine_options
@click.argument("picture", metavar="PICTURE", type=click.Choice(["map", "lanes", "flame", "hist"]))
@click.argument("function", metavar="[FUNC]", default="")
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@trace_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="SVG file to write; an existing file is replaced.",
)
def draw_command(
    picture: str,
    function: str,
    commands: str,
    recorded: str | None,
    output: Path,
    open_session: MachineOptions,
) -> None:
    """Execute CMDS and write a picture as SVG.

    map shows the address space and what the call site of FUNC reaches. lanes shows what each CPU
    did over virtual time. flame shows which calls took the time, and hist how long the calls of
    FUNC took; both need the tracer function_graph. A recorded trace has no map.
    """
    from ...core.session.pictures import drawing_of, picture_of_trace, whole
    from ...core.views.drawing import svg
    from ..files.whole_file import write_whole
    from .prompt import run_before

    if recorded is not None:
        from ...core.trace.file.recording import Recording

        check_recorded(commands)
        made = picture_of_trace(Recording(Path(recorded)).text(), picture, function)
        write_whole(output, svg(whole(made)))
        return
    session = opened(open_session)
    if commands:
        run_before(session, commands)
    write_whole(output, svg(drawing_of(session, picture, function)))
