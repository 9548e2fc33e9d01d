"""`dynftrace sh`: the tracefs shell."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import DynftraceError
from .options import machine_options, opened

if TYPE_CHECKING:
    from ..saved.machine_options import MachineOptions


LONGEST = 16 << 20
"""Maximum length of a script, in characters."""


@click.command(name="sh", short_help="Run the tracefs shell.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", help="Execute these commands and exit.")
@click.argument("script", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.pass_context
def sh_command(
    context: click.Context,
    commands: str | None,
    script: Path | None,
    open_session: MachineOptions,
) -> None:
    """Run the tracefs shell: CMDS, a script FILE, or commands from stdin.

    In the shell, `help` lists the commands. The exit status is that of the last command.
    """
    from .prompt import run_interactive, run_lines, run_text

    if commands is not None and script is not None:
        raise click.UsageError("give either -c CMDS or FILE, not both")
    if commands is not None:
        status = run_text(opened(open_session), commands)
    elif script is not None:
        try:
            with open(script, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(LONGEST + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DynftraceError(f"{script}: {reason}") from error
        if len(text) > LONGEST:  # a device such as /dev/zero never ends
            raise DynftraceError(f"{script}: a script has at most {LONGEST >> 20} MB")
        status = run_lines(opened(open_session), io.StringIO(text))
    elif sys.stdin.isatty():
        status = run_interactive(opened(open_session))
    else:
        status = run_lines(opened(open_session), sys.stdin)
    context.exit(status)
