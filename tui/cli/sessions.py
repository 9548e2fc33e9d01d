"""`dynftrace sessions`: list or delete saved console sessions."""

from __future__ import annotations

import click

from ...core.errors import DynftraceError
from ..saved import session_file
from .options import completion_of


@click.command(name="sessions", short_help="List or delete saved console sessions.")
@click.option(
    "--delete",
    "unwanted",
    metavar="NAME",
    multiple=True,
    help="Delete this session; may be repeated.",
    shell_complete=completion_of(session_file.names),
)
def sessions_command(unwanted: tuple[str, ...]) -> None:
    """List the saved console sessions: name, architecture and number of commands.

    `dynftrace --session NAME` restores a session, or starts a new one.
    """
    if unwanted:
        for name in unwanted:
            session_file.delete(name)
        return
    found = session_file.names()
    width = max(map(len, found), default=0)
    for name in found:
        try:
            saved = session_file.load(name)
        except DynftraceError as error:
            print(f"{name:<{width}}  cannot be read: {error}")
            continue
        if saved is not None:
            plural = "" if saved.commands == 1 else "s"
            print(f"{name:<{width}}  {saved.machine.arch:<12}  {saved.commands} command{plural}")
