"""The command line: `dynftrace` and its subcommands.

Heavy modules are imported only when needed: `--help` loads only click, `sh` never
loads the console, and the console draws its first frame before it loads the emulator.
Expected errors are `DynftraceError`s: the message goes to stderr and the status is 1.
As usual with click, a wrong command line ends with status 2.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from ... import __version__
from ...core.errors import DynftraceError, HostMemoryError, UsageError
from ..saved import settings
from ..saved.machine_options import MachineOptions
from .exit_status import FAILED, INTERRUPTED, USAGE
from .options import completion_of, flag, given, machine_options, session_names, theme_option
from .process import (
    be_lenient,
    check_memory,
    complain,
    die_of_interrupts,
    give_up,
    open_streams,
)

COMMANDS = {
    "arches": "compare",
    "compare": "compare",
    "diff": "files",
    "doctor": "doctor",
    "draw": "draw",
    "export": "export",
    "mount": "mount",
    "open": "open_file",
    "port": "port",
    "record": "record",
    "records": "files",
    "screenshot": "screenshot",
    "serve": "serve",
    "sessions": "sessions",
    "sh": "sh",
    "site": "files",
    "sites": "sites",
    "tour": "tour",
}
"""Module of each subcommand, which holds it as NAME_command."""


YOUNG = 50_000
"""Number of new objects after which the garbage collector scans them."""


class Commands(click.Group):
    """The subcommands, each imported on demand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `args`, with defaults from the user's settings."""
        # Completion needs no defaults and should not wait for them.
        if not ctx.resilient_parsing:
            settings.use(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return sorted(COMMANDS)

    def invoke(self, ctx: click.Context) -> object:
        """Execute the command line. Raises `DynftraceError` if no machine would fit in memory."""
        check_memory()
        return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".{COMMANDS[cmd_name]}", __package__)
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command), cmd_name
        return command


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@machine_options
@theme_option
@click.option(
    "--session",
    metavar="NAME",
    help="Save the console's session under this name, or restore a saved one.",
    shell_complete=completion_of(session_names),
)
@click.version_option(__version__, prog_name="dynftrace", message="%(prog)s %(version)s")
@click.pass_context
def dynftrace(
    context: click.Context,
    open_session: MachineOptions,
    theme: str | None,
    session: str | None,
) -> None:
    """Watch Linux dynamic ftrace patch a running kernel.

    Without a COMMAND, opens the console on the machine that the OPTIONS describe.
    """
    if context.invoked_subcommand is None:
        from .console import open_console

        context.exit(open_console(context, open_session, theme, session))
    for name in context.params:
        if given(context, name):
            if name in ("theme", "session"):
                raise click.UsageError(f"--{name} applies to the console only: give no command")
            raise click.UsageError(
                f"put {flag(name)} after the command: "
                f"dynftrace {context.invoked_subcommand} {flag(name)} …"
            )


def run(arguments: Sequence[str]) -> int:
    """Execute a command line without the program's name and return the exit status."""
    be_lenient()
    # Imports create many objects that stay: scanning them for garbage takes 5 % of a start.
    gc.set_threshold(YOUNG, 10, 10)
    try:
        status = dynftrace.main(list(arguments), prog_name="dynftrace", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        try:
            error.show()
        except OSError:
            give_up("stderr")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        give_up("stdout")
        return FAILED
    except OSError as error:
        give_up("stdout")
        complain(error.strerror or str(error))
        return FAILED
    except MemoryError:
        complain(str(HostMemoryError()))
        return FAILED
    except DynftraceError as error:
        complain(str(error))
        return USAGE if isinstance(error, UsageError) else FAILED


def main() -> None:
    """Run the program and exit with its status."""
    die_of_interrupts()
    open_streams()
    # numpy's BLAS reserves memory for each CPU of the host, and nothing here uses it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A container may run as a user without a name. Its home is then /, as in Docker.
    if os.path.expanduser("~") == "~":
        os.environ["HOME"] = "/"
    try:
        status = run(sys.argv[1:])
    finally:
        die_of_interrupts()
    sys.exit(status)
