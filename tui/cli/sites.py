"""`dynftrace sites`: all call sites of a machine or of a file, as text, JSON or CSV."""

from __future__ import annotations

import sys

import click

from ..saved.machine_options import MachineOptions
from .options import ANY_PATH, MACHINE, first_commands_option, flag, given, machine_options, opened


@click.command(name="sites", short_help="List all call sites.")
@click.argument("file", required=False, type=ANY_PATH)
@machine_options
@first_commands_option
@click.option("--json", "json", is_flag=True, help="Print a JSON list of objects.")
@click.option("--csv", "csv", is_flag=True, help="Print comma-separated values with a header.")
def sites_command(
    file: str | None,
    commands: str,
    json: bool,
    csv: bool,
    open_session: MachineOptions,
) -> None:
    """List all call sites: address, name, module, compiled bytes, current bytes, state.

    With FILE, a kernel or a module of any architecture, list its call sites. Nothing is run.
    """
    from ...core.shell.text.site_table import as_csv, as_json, as_text
    from ...core.views.site_table import site_rows
    from .prompt import run_before

    if json and csv:
        raise click.UsageError("give either --json or --csv, not both")
    if file is not None:
        context = click.get_current_context()
        for name in (*MACHINE, "commands", "csv"):
            if name != "arch" and given(context, name):
                option = "-c" if name == "commands" else flag(name)
                raise click.UsageError(f"FILE is read without a machine: leave out {option}")
        _of_file(file, open_session.arch if given(context, "arch") else None, json)
        return
    session = opened(open_session)
    run_before(session, commands)
    rows = site_rows(session.boot.ftrace, session.boot.machine.memory)
    sys.stdout.write((as_json if json else as_csv if csv else as_text)(rows))


def _of_file(file: str, arch: str | None, json: bool) -> None:
    """List the sites of `file`."""
    from ...core.shell.text import static_sites as text
    from .files import read_file, write

    table = read_file(file, arch)
    if json:
        found = text.about_object(table) | {
            "list_of_sites": [text.site_object(each) for each in table.sites]
        }
        sys.stdout.write(text.as_json(found))
        return
    write([*text.about(table), ""])
    write(text.sites_text(table))
