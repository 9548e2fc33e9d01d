"""`dynftrace arches` and `dynftrace compare`: all architectures side by side."""

from __future__ import annotations

import json as json_format
import sys

import click

from ... import arches


@click.command(name="arches", short_help="Show all architectures side by side.")
def arches_command() -> None:
    """Show all architectures: forms of call sites, the reach of a call, calls from modules.

    Includes the ports of other packages. The example is the call site of schedule.
    """
    from ...core.portcheck.support import support
    from ...core.portcheck.support_text import support_lines

    ports = {name: support(arches.load(name)) for name in arches.names()}
    sys.stdout.writelines(f"{line}\n" for line in support_lines(ports))


@click.command(name="compare", short_help="Compare one function on every architecture.")
@click.argument("function", default="schedule", metavar="[FUNC]")
@click.option("--markdown", is_flag=True, help="Print Markdown tables, as in the documentation.")
@click.option("--json", "json", is_flag=True, help="Print a JSON list of objects.")
def compare_command(function: str, markdown: bool, json: bool) -> None:
    """Show the call site of FUNC on every architecture: compiled, disabled, enabled, path."""
    from ..explore.comparison import compared, compared_objects, compared_table

    if markdown and json:
        raise click.UsageError("give either --markdown or --json, not both")
    if json:
        sys.stdout.write(json_format.dumps(compared_objects(function), indent=1) + "\n")
    elif markdown:
        sys.stdout.write(compared_table(function))
    else:
        sys.stdout.writelines(f"{line}\n" for line in compared(function))
