"""`dynftrace serve`: the console in a browser, a machine for each visitor.

There is no authentication. By default the server listens only on this computer. `--host`
opens it to others, and the server then prints a warning.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ...core.errors import DynftraceError, UsageError
from .options import given, machine_options, theme_option

if TYPE_CHECKING:
    from ...core.session.session import Session

LOOPBACK = "127.0.0.1"
PORT = 8000
VISITORS = 16
OWN_OPTIONS = ("host", "port", "visitors", "any_module")
"""Parameters of the server; all others are passed to the console."""

NEEDED = {"aiohttp": "aiohttp", "textual_serve": "textual-serve"}
"""Modules of the optional extra `serve`, and the packages that provide them."""


@click.command(name="serve", short_help="Serve the console in a browser.")
@machine_options
@theme_option
@click.option(
    "--host",
    metavar="ADDR",
    default=LOOPBACK,
    show_default=True,
    help="Address to listen on. There is no authentication.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option(
    "--visitors",
    type=click.IntRange(1),
    metavar="N",
    default=VISITORS,
    show_default=True,
    help="Maximum number of visitors at a time; each needs about 100 MB of memory.",
)
@click.option(
    "--any-module",
    is_flag=True,
    help="Let visitors load modules by path: any file that this user can read.",
)
@click.pass_context
def serve_command(
    context: click.Context,
    host: str,
    port: int,
    visitors: int,
    any_module: bool,
    theme: str | None,
    open_session: Callable[[], Session],
) -> None:
    """Serve the console in a browser. Each visitor has a machine that the OPTIONS describe.

    ctrl+c stops the server and all machines.
    """
    try:
        from ..web.server import serve
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in NEEDED:
            raise
        raise DynftraceError(
            f"serve needs the package {NEEDED[package]}: pip install 'dynftrace[serve]'"
        ) from error
    if theme is not None:
        _check_theme(theme)
    # If the machine cannot be opened, fail here, and not for each visitor.
    open_session()
    command = [sys.executable, "-m", "dynftrace", *console_arguments(context)]
    with listen(host, port) as listener:
        address, number = listener.getsockname()[:2]
        alone = ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if not alone:
            print(
                f"dynftrace: warning: no authentication: anyone who can connect to port {number} "
                f"of {host} can do everything the console can",
                file=sys.stderr,
                flush=True,
            )
        shown = f"[{host}]" if ":" in host else host

        def ready() -> None:
            print(f"The console is at http://{shown}:{number}/ until ctrl+c.", flush=True)

        status = serve(
            command,
            listener,
            local=alone,
            ready=ready,
            visitors=visitors,
            any_module=any_module,
        )
    context.exit(status)


def console_arguments(context: click.Context) -> Iterator[str]:
    """Yield the console's options of the command line in `context`, as an argv.

    Only given options are included because a default may depend on other options.
    """
    for option in context.command.params:
        name = option.name or ""
        if name in OWN_OPTIONS or not given(context, name):
            continue
        values = context.params[name]
        for value in values if option.multiple else (values,):
            # One word, so that a value starting with a dash is not read as an option.
            yield f"{option.opts[0]}={value}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `port` of `host`; port 0 selects a free port.

    Raises `DynftraceError` if that fails, for example because the port is in use.
    """
    try:
        (family, *_, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        # create_server repeats the address, which the message already has.
        reason = reason.partition(" (while attempting")[0]
        raise DynftraceError(f"cannot listen on port {port} of {host}: {reason}") from error


def _check_theme(name: str) -> None:
    """Raise `UsageError` for an unknown theme: here, not in each visitor's console."""
    from textual.theme import BUILTIN_THEMES

    from ..console.theme import THEMES

    known = {*BUILTIN_THEMES, *(theme.name for theme in THEMES)}
    if name not in known:
        raise UsageError(f"unknown theme {name!r} (choose from: {', '.join(sorted(known))})")
