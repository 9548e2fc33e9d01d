"""The command line: `dynftrace` and its subcommands.

Heavy modules are imported only when needed: `--help` loads only click, `sh` never
loads the console, and the console draws its first frame before it loads the emulator.
Expected errors are `DynftraceError`s: the message goes to stderr and the status is 1.
As usual with click, a wrong command line ends with status 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from ... import __version__, arches
from ...core.errors import DynftraceError, UsageError
from ...core.facts import DISCOVERIES, PATCH_METHODS
from ..saved import settings
from ..saved.machine_options import Described

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ..saved.session_store import Keeper

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
"""Exit status after ctrl+c, as a shell reports it."""

ANY_PATH = click.Path(readable=False)
"""Completed as a file by a shell; the code that reads the file reports errors."""


def architecture(context: click.Context, option: click.Parameter, name: str) -> str:
    """Return `name` if it is a port; ports of other packages are searched last."""
    if not arches.known(name):
        known = ", ".join(map(repr, arches.names()))
        raise click.BadParameter(f"{name!r} is not one of {known}.", context, option)
    return name


def _listed(names: Sequence[str], last: str = "") -> str:
    """Return `a, b, c`, or with `last` before the last name: `a, b or c`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if last else ", ".join(names)


def begun_architectures(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Complete the built-in ports; finding those of other packages takes too long."""
    return [name for name in arches.built_in() if name.startswith(begun)]


def begun_screens(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Complete the screens; this imports more than other completions do."""
    from ..pictures.picture import POSES

    return [name for name in POSES if name.startswith(begun)]


class Commands(click.Group):
    """The subcommands. Some are in files of their own, imported on demand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `args`, with defaults from the user's settings."""
        # Completion needs no defaults and should not wait for them.
        if not ctx.resilient_parsing:
            settings.use(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return sorted([*super().list_commands(ctx), "port", "serve", "sessions", "tour"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand `cmd_name`, or None."""
        if cmd_name == "port":
            from .port import ports_group

            return ports_group
        if cmd_name == "serve":
            from .serve import serve_command

            return serve_command
        if cmd_name == "sessions":
            from .sessions import sessions_command

            return sessions_command
        if cmd_name == "tour":
            from .tour import tour_command

            return tour_command
        return super().get_command(ctx, cmd_name)


def begun_sessions(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Complete the saved sessions."""
    from ..saved import session_file

    return [name for name in session_file.names() if name.startswith(begun)]


def machine_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options that describe a machine; the command gets `open_session` instead."""
    options = (
        click.option(
            "--arch",
            metavar="NAME",
            callback=architecture,
            default=arches.DEFAULT,
            show_default=True,
            help=f"Architecture of the machine: {_listed(arches.built_in())}, or one from "
            "another package; `port list` shows all.",
            shell_complete=begun_architectures,
        ),
        click.option(
            "--kernel",
            metavar="NAME|ELF",
            type=ANY_PATH,
            help="Kernel to boot: another build of the teaching kernel "
            f"({_listed(arches.builds(), 'or')}), or your own image.",
        ),
        click.option(
            "--module",
            "modules",
            metavar="KO",
            type=ANY_PATH,
            multiple=True,
            help="Module to load after boot, by path or by name; may be repeated.",
        ),
        click.option(
            "--cpus",
            type=click.IntRange(1, 8),
            metavar="N",
            default=2,
            show_default=True,
            help="Number of vCPUs.",
        ),
        click.option(
            "--patch",
            type=click.Choice(PATCH_METHODS),
            help="How ftrace writes code; the default depends on the architecture.",
        ),
        click.option(
            "--nop",
            metavar="NAME",
            help="How call sites are disabled, if the architecture has several ways; an unknown "
            "name lists the valid ones.",
        ),
        click.option(
            "--discovery",
            type=click.Choice(DISCOVERIES),
            help="How call sites are found; the default depends on the kernel.",
        ),
    )

    @wraps(command)
    def with_opener(
        *args: object,
        arch: str,
        kernel: str | None,
        modules: tuple[str, ...],
        cpus: int,
        patch: str | None,
        nop: str | None,
        discovery: str | None,
        **others: object,
    ) -> object:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            settings.check(context)
        chosen = context.get_parameter_source("arch")
        given = arch if chosen is click.core.ParameterSource.COMMANDLINE else None
        name, image = arches.build(given, kernel)
        # The setting `arch` applies unless the kernel implies a port.
        if given is None and image == kernel:
            name = arch

        machine = Described(
            name, image, modules, cpus, patch, nop, discovery, settings.origin(context, "patch")
        )
        return command(*args, open_session=machine, **others)

    decorated: Callable[..., object] = with_opener
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@machine_options
@click.option("--theme", metavar="NAME", help="Colours of the console, such as dynftrace-light.")
@click.option(
    "--session",
    metavar="NAME",
    help="Save the console's session under this name, or restore a saved one.",
    shell_complete=begun_sessions,
)
@click.version_option(__version__, prog_name="dynftrace", message="%(prog)s %(version)s")
@click.pass_context
def dynftrace(
    context: click.Context,
    open_session: Described,
    theme: str | None,
    session: str | None,
) -> None:
    """Watch Linux dynamic ftrace patch a running kernel.

    Without a COMMAND, opens the console on the machine that the OPTIONS describe.
    """
    if context.invoked_subcommand is not None:
        for name in context.params:
            source = context.get_parameter_source(name)
            if source is click.core.ParameterSource.COMMANDLINE:
                if name in ("theme", "session"):
                    raise click.UsageError(f"--{name} applies to the console only: give no command")
                shown = {"modules": "module"}.get(name, name)
                raise click.UsageError(
                    f"put --{shown} after the command: "
                    f"dynftrace {context.invoked_subcommand} --{shown} …"
                )
        return
    # Under `serve`, Textual's web driver replaces the terminal.
    if "TEXTUAL_DRIVER" not in os.environ and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DynftraceError("the console needs a terminal; use dynftrace sh without one")
    # Textual reads this on import: a key press is drawn within 8 ms instead of 16.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    from ..console.run import run_console

    keeper = None if session is None else _keeper(context, session, open_session)
    context.exit(
        run_console(
            open_session,
            theme_name=theme,
            theme_from=settings.origin(context, "theme"),
            keeper=keeper,
        )
    )


def _keeper(context: click.Context, name: str, described: Described) -> Keeper:
    """Return the keeper of session `name`: saved before, or new on the machine `described`.

    Raises `UsageError` if a given option differs from that of the saved machine.
    """
    from ..saved import session_file
    from ..saved.session_store import Keeper

    here = replace(
        described,
        kernel=described.kernel and os.path.abspath(described.kernel),
        modules=tuple(_absolute(module) for module in described.modules),
    )
    saved = session_file.load(name)
    if saved is not None:
        for option in ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery"):
            source = context.get_parameter_source(option)
            # A build that is given by its name is an architecture.
            field = "arch" if option == "kernel" and here.kernel is None else option
            was, given = getattr(saved.machine, field), getattr(here, field)
            if source is click.core.ParameterSource.COMMANDLINE and was != given:
                shown = {"modules": "module"}.get(option, option)
                raise UsageError(
                    f"session {name} was saved with another --{shown} ({_shown(was)}, not "
                    f"{_shown(given)}): omit --{shown} or use another session name"
                )
        if context.get_parameter_source("theme") is click.core.ParameterSource.COMMANDLINE:
            saved = replace(saved, layout=replace(saved.layout, theme=None))
    return Keeper(name, here, saved)


def _absolute(module: str) -> str:
    """Return the absolute path of a module given by path, or its name unchanged."""
    return os.path.abspath(module) if "/" in module or module.endswith(".ko") else module


def _shown(value: object) -> str:
    """Format the value of an option as on a command line."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "the default" if value is None else str(value)


@dynftrace.command(name="sh", short_help="Run the tracefs shell.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", help="Execute these commands and exit.")
@click.argument("script", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.pass_context
def shell(
    context: click.Context,
    commands: str | None,
    script: Path | None,
    open_session: Callable[[], Session],
) -> None:
    """Run the tracefs shell: CMDS, a script FILE, or commands from stdin.

    In the shell, `help` lists the commands. The exit status is that of the last command.
    """
    from .prompt import run_interactive, run_lines, run_text

    if commands is not None and script is not None:
        raise click.UsageError("give either -c CMDS or FILE, not both")
    if commands is not None:
        status = run_text(open_session(), commands)
    elif script is not None:
        try:
            with open(script, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DynftraceError(f"{script}: {reason}") from error
        status = run_lines(open_session(), lines)
    elif sys.stdin.isatty():
        status = run_interactive(open_session())
    else:
        status = run_lines(open_session(), sys.stdin)
    context.exit(status)


@dynftrace.command(short_help="List all call sites.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@click.option("--json", "json", is_flag=True, help="Print a JSON list of objects.")
@click.option("--csv", "csv", is_flag=True, help="Print comma-separated values with a header.")
def sites(
    commands: str,
    json: bool,
    csv: bool,
    open_session: Callable[[], Session],
) -> None:
    """List all call sites: address, name, module, compiled bytes, current bytes, state."""
    from ...core.shell.text.site_table import as_csv, as_json, as_text
    from ...core.views.site_table import site_rows
    from .prompt import run_before

    if json and csv:
        raise click.UsageError("give either --json or --csv, not both")
    session = open_session()
    run_before(session, commands)
    rows = site_rows(session.boot.ftrace, session.boot.machine.memory)
    sys.stdout.write((as_json if json else as_csv if csv else as_text)(rows))


@dynftrace.command(name="arches", short_help="Show all architectures side by side.")
def architectures() -> None:
    """Show all architectures: forms of call sites, the reach of a call, calls from modules.

    Includes the ports of other packages. The example is the call site of schedule.
    """
    from ...core.portcheck.support import support
    from ...core.portcheck.support_text import support_lines

    ports = {name: support(arches.load(name)) for name in arches.names()}
    sys.stdout.writelines(f"{line}\n" for line in support_lines(ports))


@dynftrace.command(short_help="Compare one function on every architecture.")
@click.argument("function", default="schedule", metavar="[FUNC]")
@click.option("--markdown", is_flag=True, help="Print Markdown tables, as in the README.")
def compare(function: str, markdown: bool) -> None:
    """Show the call site of FUNC on every architecture: compiled, disabled, enabled, path."""
    from ..explore.comparison import compared, compared_table

    if markdown:
        sys.stdout.write(compared_table(function))
    else:
        sys.stdout.writelines(f"{line}\n" for line in compared(function))


@dynftrace.command(short_help="Write a picture of the console as SVG.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@click.option(
    "--screen",
    metavar="NAME",
    default="main",
    show_default=True,
    help="Screen to show; an unknown name lists the valid ones.",
    shell_complete=begun_screens,
)
@click.option(
    "--size",
    metavar="COLSxROWS",
    default="120x40",
    show_default=True,
    help="Columns and rows of the terminal in the picture.",
)
@click.option("--theme", metavar="NAME", help="Colours of the picture; none if NO_COLOR is set.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="SVG file to write; an existing file is replaced.",
)
def screenshot(
    commands: str,
    screen: str,
    size: str,
    theme: str | None,
    output: Path,
    open_session: Callable[[], Session],
) -> None:
    """Execute CMDS and write a picture of the console as SVG."""
    from ..files.whole_file import write_whole
    from ..pictures.picture import parse_size, take_picture

    picture = take_picture(open_session, commands, screen, parse_size(size), theme)
    write_whole(output, picture)


def run(arguments: Sequence[str]) -> int:
    """Execute a command line without the program's name and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            utf8 = stream.encoding.lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")
    try:
        status = dynftrace.main(list(arguments), prog_name="dynftrace", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader is gone; the interpreter must not flush again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"dynftrace: {error.strerror or error}", file=sys.stderr)
        return 1
    except DynftraceError as error:
        print(f"dynftrace: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def main() -> None:
    """Run the program and exit with its status."""
    sys.exit(run(sys.argv[1:]))
