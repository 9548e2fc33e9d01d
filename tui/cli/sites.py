"""`dynftrace sites`: all call sites as text, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from .options import first_commands_option, machine_options

if TYPE_CHECKING:
    from ...core.session.session import Session


@click.command(name="sites", short_help="List all call sites.")
@machine_options
@first_commands_option
@click.option("--json", "json", is_flag=True, help="Print a JSON list of objects.")
@click.option("--csv", "csv", is_flag=True, help="Print comma-separated values with a header.")
def sites_command(
    commands: str,
    json: bool,
    csv: bool,
    open_session: Callable[[], Session],
) -> None:
    """List all call sites: address, name, module, compiled bytes, current bytes, state."""
    from ...core.shell.text.site_table import as_csv, as_json, as_text
    from ...core.views.site_table import site_rows
    from .prompt import run_before

    if json and csv:
        raise click.UsageError("give either --json or --csv, not both")
    session = open_session()
    run_before(session, commands)
    rows = site_rows(session.boot.ftrace, session.boot.machine.memory)
    sys.stdout.write((as_json if json else as_csv if csv else as_text)(rows))
