"""`dynftrace port`: list the ports, and check them against the porting guide."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ... import arches
from ...core.errors import UsageError
from ..files.status_line import StatusLine
from .exit_status import FAILED
from .options import completion_of

if TYPE_CHECKING:
    from ...core.arch import Port


@click.group(name="port", short_help="List ports, or check one against the porting guide.")
def port_command() -> None:
    """List the built-in ports and those of other packages, or check them.

    A package adds a port with an entry point of the group dynftrace.arches that names a
    function returning a core.arch.Port. See docs/porting.md.
    """


@port_command.command(name="list")
def list_ports() -> None:
    """List the names of all ports."""
    for name in arches.names():
        print(name)


def _port(name: str) -> Port:
    """Return the port that is called `name`, or is in the Python file of that name."""
    return arches.load_file(name) if name.endswith(".py") else arches.load(name)


@port_command.command(short_help="Check ports against the porting guide.")
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=completion_of(arches.built_in)
)
@click.option("--all", "every", is_flag=True, help="Check every port.")
@click.option("--only", metavar="TEXT", help="Only checks with TEXT in their name or heading.")
@click.option("--json", "json", is_flag=True, help="Print a JSON list of objects.")
@click.pass_context
def check(
    context: click.Context, names: tuple[str, ...], every: bool, only: str | None, json: bool
) -> None:
    """Check the ports NAME against the porting guide.

    A NAME that ends in .py is a file, which is executed; its function port() returns the port.

    Each check passes, fails and shows the bytes, or reports what is not provided. Give names
    or --all. The exit status is 1 if a check failed, else 0.
    """
    if every == bool(names):
        raise click.UsageError("give either port names or --all")
    ports: list[tuple[str, Port]] = []
    failed = False
    for name in arches.names() if every else names:
        try:
            ports.append((name, _port(name)))
        except UsageError as error:
            # With --all, a port that cannot be loaded counts as failed.
            if not every:
                raise
            print(f"dynftrace: {error}", file=sys.stderr)
            failed = True
    # Imported only for valid names because it loads the emulator.
    from ...core.portcheck import (
        CHECKS,
        Check,
        Failed,
        Outcome,
        check_port,
        checks_of,
        objects,
        report_lines,
    )

    checks = CHECKS if only is None else checks_of(only)
    progress = StatusLine("checks", len(ports) * len(checks))

    def results(port: Port) -> Iterator[tuple[Check, Outcome]]:
        nonlocal failed
        for each, outcome in progress.over(check_port(port, checks)):
            failed = failed or isinstance(outcome, Failed)
            yield each, outcome

    if json:
        rows = [row for name, port in ports for row in objects(name, results(port))]
        print(json_format.dumps(rows, indent=1))
    else:
        for number, (name, port) in enumerate(ports):
            if number:
                print()
            for line in report_lines(name, results(port)):
                print(line)
                sys.stdout.flush()
    context.exit(FAILED if failed else 0)
