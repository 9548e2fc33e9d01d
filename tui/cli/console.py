"""`dynftrace` without a command: open the console, with or without a saved session."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...core.errors import DynftraceError, UsageError
from ..files.terminal import DUMB, can_move_cursor
from ..saved import settings
from ..saved.machine_options import MachineOptions
from .options import flag, given

if TYPE_CHECKING:
    from ..saved.session_store import SessionStore

FPS = "500"
"""Frames a second, which Textual reads on import: a key waits at most 2 ms for the next, not 16."""

MACHINE_OPTIONS = ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery")
"""Options that must agree with the machine of a saved session."""


def open_console(
    context: click.Context, machine: MachineOptions, theme: str | None, session: str | None
) -> int:
    """Open the console on `machine`, or on the session named `session`; return its status.

    Raises `DynftraceError` without a terminal.
    """
    need_a_terminal("use dynftrace sh without one")
    os.environ.setdefault("TEXTUAL_FPS", FPS)
    from ..console.run import run_console

    return run_console(
        machine,
        theme_name=theme,
        theme_from=settings.origin(context, "theme"),
        store=None if session is None else _session_store(context, session, machine),
    )


def need_a_terminal(instead: str, what: str = "the console") -> None:
    """Raise `DynftraceError` without a terminal for `what`; `instead` ends the message."""
    # Under `serve`, Textual's web driver replaces the terminal.
    if "TEXTUAL_DRIVER" in os.environ:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DynftraceError(f"{what} needs a terminal; {instead}")
    if not can_move_cursor(sys.stdout):
        raise DynftraceError(
            f"{what} needs a terminal that can move its cursor, and TERM is {DUMB}; {instead}"
        )


def _session_store(context: click.Context, name: str, machine: MachineOptions) -> SessionStore:
    """Return the store of the session `name`: a saved one, or a new one on `machine`.

    Raises `UsageError` if a given option differs from that of the saved machine.
    """
    from ..saved import session_file
    from ..saved.session_store import SessionStore

    # The session may be restored from another folder.
    here = replace(
        machine.with_arch(),
        kernel=machine.kernel and os.path.abspath(machine.kernel),
        modules=tuple(_absolute(module) for module in machine.modules),
    )
    saved = session_file.load(name)
    if saved is not None:
        for option in MACHINE_OPTIONS:
            # arches.build has turned the name of a build into an architecture.
            field = "arch" if option == "kernel" and here.kernel is None else option
            was, now = getattr(saved.machine, field), getattr(here, field)
            if given(context, option) and was != now:
                raise UsageError(
                    f"session {name} was saved with a different {flag(option)} ({_shown(was)}, not "
                    f"{_shown(now)}): omit {flag(option)} or use another session name"
                )
        if given(context, "theme"):
            saved = replace(saved, layout=replace(saved.layout, theme=None))
    return SessionStore(name, here, saved)


def _absolute(module: str) -> str:
    """Return the absolute path of a module given by path, or its name unchanged."""
    return os.path.abspath(module) if "/" in module or module.endswith(".ko") else module


def _shown(value: object) -> str:
    """Format the value of an option as on a command line."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "the default" if value is None else str(value)
