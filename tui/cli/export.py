"""`dynftrace export`: a trace as a file for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import UsageError
from .options import check_recorded, machine_options, opened, output_option, trace_option

if TYPE_CHECKING:
    from ..saved.machine_options import MachineOptions

FORMATS = ("perfetto", "folded", "speedscope", "csv", "jsonl", "text", "report", "trace.dat")
"""Names of the formats; importing them with the code would make `--help` slow."""


@click.command(name="export", short_help="Write a trace as a file for other tools.")
@machine_options
@click.option(
    "-c", "commands", metavar="CMDS", help="Commands to execute first; they make the trace."
)
@trace_option
@click.option(
    "-f",
    "--format",
    "wanted",
    type=click.Choice(FORMATS),
    help="Format; by default, the one that the extension of FILE names.",
)
@click.option(
    "--file-version",
    type=click.Choice(["6", "7"]),
    default="6",
    show_default=True,
    help="Version of a trace.dat.",
)
@output_option("File to write; an existing file is replaced.")
def export_command(
    commands: str | None,
    recorded: str | None,
    wanted: str | None,
    file_version: str,
    output: Path,
    open_session: MachineOptions,
) -> None:
    """Execute CMDS and write the trace for another tool, or convert a recorded trace.

    perfetto (.json) opens in Perfetto and Chrome. folded (.folded) is the input of
    flame graphs. speedscope (.speedscope.json) opens in speedscope. csv (.csv) and jsonl
    (.jsonl) have one record for each event. text (.txt) is the file trace. report
    (.report.txt) is what `trace-cmd report` 3.1 prints. trace.dat (.dat) opens in
    trace-cmd, KernelShark and `dynftrace open`. folded and speedscope need the tracer
    function_graph, which records how long calls take.
    """
    from ...core.trace.export.formats import TRACE_DAT, exported, format_of
    from ...core.tracefs.tracedat import recorded as pages_of
    from ..files.whole_file import write_whole
    from .prompt import run_before

    try:
        kind = wanted or format_of(output.name)
    except UsageError as error:
        raise click.UsageError(f"{error}, or use -f") from error
    if recorded is not None:
        check_recorded(commands)
        _convert(Path(recorded), kind, output)
        return
    if commands is None:
        raise click.UsageError("nothing to export: give commands with -c, or a file with --trace")
    session = opened(open_session)
    run_before(session, commands)
    array, patcher = session.boot.array, session.boot.ftrace.patcher
    if kind == TRACE_DAT:
        write_whole(output, pages_of(array, int(file_version)))
    else:
        write_whole(output, exported(array.text(), kind, output.name, patcher.performed))


def _convert(path: Path, kind: str, output: Path) -> None:
    """Write a recorded trace in another format."""
    from ...core.trace.export.formats import TRACE_DAT, exported
    from ...core.trace.file.recording import Recording
    from ..files.whole_file import write_whole

    if kind == TRACE_DAT:
        raise UsageError(f"{path} is a trace.dat already: trace-cmd convert changes its version")
    write_whole(output, exported(Recording(path).text(), kind, output.name))
