"""`dynftrace serve`: the console in a browser, a machine for each visitor.

There is no authentication. What listens on this computer alone is the default; whoever
wants more says so with --host, and is told what that means.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ..core.errors import DynftraceError, UsageError
from .cli import machine_options

if TYPE_CHECKING:
    from ..core.session import Session

LOOPBACK = "127.0.0.1"
PORT = 8000
OWN_OPTIONS = ("host", "port")
"""Parameters that are the server's; all others go on to the console."""

NEEDED = {"aiohttp": "aiohttp", "textual_serve": "textual-serve"}
"""Modules that are only there where they were asked for, and their packages."""


@click.command(name="serve", short_help="The console in a browser.")
@machine_options
@click.option("--theme", metavar="NAME", help="Colours of the console, such as dynftrace-light.")
@click.option(
    "--host",
    metavar="ADDR",
    default=LOOPBACK,
    show_default=True,
    help="Address to listen at. There is no authentication.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=PORT,
    show_default=True,
    help="Port to listen at; 0 is any that is free.",
)
@click.pass_context
def serve_command(
    context: click.Context,
    host: str,
    port: int,
    theme: str | None,
    open_session: Callable[[], Session],
) -> None:
    """The console in a browser: each visitor has a machine, as the OPTIONS describe it.

    ctrl+c ends it, and all machines with it.
    """
    try:
        from .webserver import serve
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in NEEDED:
            raise
        raise DynftraceError(
            f"serve needs the package {NEEDED[package]}: pip install 'dynftrace[serve]'"
        ) from error
    if theme is not None:
        _check_theme(theme)
    # A machine that cannot be had is told of here, not to each visitor.
    open_session()
    command = [sys.executable, "-m", "dynftrace", *console_arguments(context)]
    with listen(host, port) as listener:
        address, number = listener.getsockname()[:2]
        alone = ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if not alone:
            print(
                f"dynftrace: there is no authentication: whoever reaches port {number} of {host} "
                "can do everything the console can",
                file=sys.stderr,
                flush=True,
            )
        shown = f"[{host}]" if ":" in host else host

        def ready() -> None:
            print(f"The console is at http://{shown}:{number}/ until ctrl+c.", flush=True)

        status = serve(command, listener, local=alone, ready=ready)
    context.exit(status)


def console_arguments(context: click.Context) -> Iterator[str]:
    """The options of the command line in `context` that are the console's, as an argv.

    Only those given: what a default is may depend on the others.
    """
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if name in OWN_OPTIONS or source is not click.core.ParameterSource.COMMANDLINE:
            continue
        values = context.params[name]
        for value in values if option.multiple else (values,):
            # One word, so that a value that begins with a dash is none of its own.
            yield f"{option.opts[0]}={value}"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at `port` of `host`, 0 being any port.

    Raises `DynftraceError` where it cannot, such as for a port that is taken.
    """
    try:
        (family, *_, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        # What create_server adds is told already.
        reason = reason.partition(" (while attempting")[0]
        raise DynftraceError(f"cannot listen at port {port} of {host}: {reason}") from error


def _check_theme(name: str) -> None:
    """Raise `UsageError` unless there is such a theme: here, not in each visitor's console."""
    from textual.theme import BUILTIN_THEMES

    from .theme import THEMES

    known = {*BUILTIN_THEMES, *(theme.name for theme in THEMES)}
    if name not in known:
        raise UsageError(f"unknown theme {name!r} (choose from: {', '.join(sorted(known))})")
