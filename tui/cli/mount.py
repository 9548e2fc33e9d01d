"""`dynftrace mount`: tracefs of a machine as a file system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import machine_options, opened

if TYPE_CHECKING:
    from ..saved.machine_options import MachineOptions

CLOCKS = ("real", "full", "ctl")


@click.command(name="mount", short_help="Mount tracefs for other programs.")
@machine_options
@click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default=CLOCKS[0],
    show_default=True,
    help="How the machine's time passes: as on the wall clock, as fast as possible, or only "
    "while commands in the file ctl run it.",
)
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def mount_command(directory: Path, clock: str, commands: str, open_session: MachineOptions) -> None:
    """Mount tracefs of a machine on the empty directory DIR, until ctrl+c or umount.

    Programs then read and write its files as on a real kernel. Three names are not part of tracefs:
    shell commands written to DIR/ctl run in the machine, and reading DIR/ctl returns their output;
    DIR/proc has the machine's /proc files; DIR/bin has modprobe and rmmod for the machine. Only the
    user who mounts has access.
    """
    from ..mount.mount import check_directory, mount
    from ..mount.runner import Pace
    from .process import complain
    from .prompt import run_before

    check_directory(directory)
    session = opened(open_session)
    run_before(session, commands)

    def ready() -> None:
        click.echo(f"tracefs is mounted on {directory} until ctrl+c.")

    mount(session, directory, Pace(clock), ready, complain)
