"""`dynftrace open`: a recorded trace in the console, or as text."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...core.errors import DynftraceError
from ..saved import settings
from .options import ANY_PATH, theme_option


@click.command(name="open", short_help="Open a recorded trace.dat.")
@click.argument("file", metavar="FILE", type=ANY_PATH)
@click.option(
    "--text", is_flag=True, help="Write the trace as text instead of opening the console."
)
@click.option(
    "--only",
    metavar="WORDS",
    help="With --text: only events that match, such as 'task:sshd cpu:0'.",
)
@click.option(
    "--instance",
    metavar="NAME",
    default="",
    help="Trace instance to show, instead of the top-level trace.",
)
@theme_option
@click.pass_context
def open_command(
    context: click.Context,
    file: str,
    text: bool,
    only: str | None,
    instance: str,
    theme: str | None,
) -> None:
    """Open FILE, a trace.dat of trace-cmd or of `dynftrace export`, recorded anywhere.

    The console shows its events with the same filters, folds and pictures as those of a machine.
    It can be a file of version 6 or 7, compressed or not, of any architecture.
    """
    if text:
        _write(Path(file), only, instance)
        return
    if only is not None:
        raise click.UsageError("--only needs --text: in the console, F filters")
    from .console import FPS, need_a_terminal

    need_a_terminal("use --text without one")
    os.environ.setdefault("TEXTUAL_FPS", FPS)
    from ..console.run import run_recorded

    context.exit(
        run_recorded(
            Path(file), instance, theme_name=theme, theme_from=settings.origin(context, "theme")
        )
    )


def _write(path: Path, only: str | None, instance: str) -> None:
    """Write the trace to standard output; say what could not be read."""
    from ...core.trace.file.recording import Recording
    from ...core.trace.select.explorer import TraceExplorer
    from ...core.trace.select.rowfilter import RowFilter

    chosen = None if only is None else RowFilter.parse(only)
    recording = Recording(path, instance)
    text = recording.text()
    if chosen is None:
        for piece in text.file():
            click.echo(piece, nl=False)
    else:
        rows = TraceExplorer(text).select(chosen).rows
        click.echo("".join(f"{line}\n" for line in text.header), nl=False)
        for start in range(0, len(rows), _BLOCK):
            lines = text.texts_at(rows[start : start + _BLOCK])
            click.echo("".join(f"{line}\n" for line in lines), nl=False)
    if recording.table.damaged:
        raise DynftraceError(
            f"{path}: {recording.table.damaged:,} damaged pages: events are missing"
        )


_BLOCK = 4096
"""Rows written at once."""
