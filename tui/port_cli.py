"""`dynftrace port`: the ports there are, and the porting guide as a program."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .. import arches
from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..core.arch import Port


@click.group(name="port", short_help="Check a port against the porting guide.")
def ports_group() -> None:
    """Ports: those that come along, and those other packages bring.

    A package brings one with an entry point of the group dynftrace.arches, its name
    leading to a function that returns a core.arch.Port. See docs/porting.md.
    """


@ports_group.command(name="list")
def list_ports() -> None:
    """The names of all ports."""
    for name in arches.names():
        print(name)


def _begun_ports(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    return [name for name in arches.built_in() if name.startswith(begun)]


@ports_group.command(short_help="Try what the guide asks of a port.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_begun_ports)
@click.option("--all", "every", is_flag=True, help="Check every port.")
@click.option("--json", "json", is_flag=True, help="A list of objects.")
@click.pass_context
def check(context: click.Context, names: tuple[str, ...], every: bool, json: bool) -> None:
    """Try what the guide asks of the ports NAME: passed, failed with the bytes, or not provided.

    Takes names, or --all. The status is 0 if nothing failed, else 1.
    """
    if every == bool(names):
        raise click.UsageError("give either names of ports or --all")
    ports: list[tuple[str, Port]] = []
    failed = False
    for name in arches.names() if every else names:
        try:
            ports.append((name, arches.load(name)))
        except UsageError as error:
            # Of all ports one that cannot be loaded is one that fails.
            if not every:
                raise
            print(f"dynftrace: {error}", file=sys.stderr)
            failed = True
    # Known to be ports; what tries them loads the emulator.
    from ..core.portcheck import Check, Failed, Outcome, check_port, objects, report_lines

    def results(port: Port) -> Iterator[tuple[Check, Outcome]]:
        nonlocal failed
        for each, outcome in check_port(port):
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
    context.exit(1 if failed else 0)
