"""`dynftrace export`: a trace as a file for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import listed, machine_options, output_option

if TYPE_CHECKING:
    from ...core.session.session import Session

SUFFIXES = {
    "perfetto": ".json",
    "folded": ".folded",
    "speedscope": ".speedscope.json",
    "csv": ".csv",
    "jsonl": ".jsonl",
    "text": ".txt",
}
"""The formats, and how the names of their files end."""


def format_of(path: Path) -> str:
    """Return the format that the name of a file asks for. Raises `click.UsageError`."""
    for name, suffix in sorted(SUFFIXES.items(), key=lambda each: -len(each[1])):
        if path.name.endswith(suffix):
            return name
    endings = listed(list(SUFFIXES.values()), "or")
    raise click.UsageError(f"the format of {path} is unknown: end its name in {endings}, or use -f")


@click.command(name="export", short_help="Write a trace as a file for other tools.")
@machine_options
@click.option(
    "-c", "commands", metavar="CMDS", required=True, help="Commands to execute, which trace."
)
@click.option(
    "-f",
    "--format",
    "wanted",
    type=click.Choice(list(SUFFIXES)),
    help="Format; the default depends on the end of FILE.",
)
@output_option("File to write; an existing file is replaced.")
def export_command(
    commands: str, wanted: str | None, output: Path, open_session: Callable[[], Session]
) -> None:
    """Execute CMDS and write the trace for another tool.

    perfetto (.json) opens in Perfetto and Chrome. folded (.folded) is the input of
    flame graphs. speedscope (.speedscope.json) opens in speedscope. csv (.csv) and jsonl
    (.jsonl) have one record for each event. text (.txt) is the file trace. folded
    and speedscope need the tracer function_graph, which records how long calls take.
    """
    from ...core.errors import DynftraceError
    from ...core.trace.export import records, stacks, timeline
    from ..files.whole_file import write_whole
    from .prompt import run_before

    kind = wanted or format_of(output)
    session = open_session()
    run_before(session, commands)
    text = session.boot.array.text()
    if not len(text.table):
        raise DynftraceError("nothing was traced: switch a tracer or an event on in CMDS")
    if kind in ("folded", "speedscope") and not stacks.has_calls(text):
        raise DynftraceError(f"{kind} needs calls with times: trace with function_graph in CMDS")
    pieces = {
        "perfetto": lambda: timeline.timeline(text),
        "folded": lambda: stacks.folded(text),
        "speedscope": lambda: stacks.speedscope(text, f"{output.name} (dynftrace)"),
        "csv": lambda: records.comma_separated(text),
        "jsonl": lambda: records.json_lines(text),
        "text": lambda: text.file(),
    }
    write_whole(output, pieces[kind]())
