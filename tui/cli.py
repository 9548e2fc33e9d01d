"""The command line: `dynftrace` and its subcommands.

Nothing heavy is imported before it is known to be needed: `--help` loads click
alone, `sh` never loads the console, and the console paints before it loads the
emulator. Whatever goes wrong on purpose is a `DynftraceError`: its sentence
goes to stderr and the status is 1; a command line that makes no sense ends
with 2, as click has it.
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

from .. import __version__, arches
from ..core.errors import DynftraceError, UsageError
from . import config
from .machine import Described

if TYPE_CHECKING:
    from ..core.session import Session
    from .keeper import Keeper

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
"""Status after ctrl+c, as a shell reports it."""

PATCH_METHODS = ("stop_machine", "breakpoint", "none")
DISCOVERIES = ("table", "ftraced")

ANY_PATH = click.Path(readable=False)
"""A shell completes it as a file; what is wrong with one is said by who reads it."""


def architecture(context: click.Context, option: click.Parameter, name: str) -> str:
    """`name`, if there is such a port; those of other packages are looked for last."""
    if not arches.known(name):
        known = ", ".join(map(repr, arches.names()))
        raise click.BadParameter(f"{name!r} is not one of {known}.", context, option)
    return name


def _listed(names: Sequence[str], last: str = "") -> str:
    """`a, b, c`, or with a word before the last `a, b or c`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if last else ", ".join(names)


def begun_architectures(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """What a shell offers: the ports that come along, as finding others takes too long."""
    return [name for name in arches.built_in() if name.startswith(begun)]


def begun_screens(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """What a shell offers for a picture; asking takes longer than for other things."""
    from .picture import POSES

    return [name for name in POSES if name.startswith(begun)]


class Commands(click.Group):
    """The subcommands; some have a file of their own, loaded when they are asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `args`; what they leave out is as the user's settings say."""
        # A shell that completes needs no defaults, and should not wait for them.
        if not ctx.resilient_parsing:
            config.use(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return sorted([*super().list_commands(ctx), "port", "serve", "sessions", "tour"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one called `cmd_name`."""
        if cmd_name == "port":
            from .port_cli import ports_group

            return ports_group
        if cmd_name == "serve":
            from .serve_cli import serve_command

            return serve_command
        if cmd_name == "sessions":
            from .sessions_cli import sessions_command

            return sessions_command
        if cmd_name == "tour":
            from .tour_cli import tour_command

            return tour_command
        return super().get_command(ctx, cmd_name)


def begun_sessions(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """What a shell offers: the sessions that were kept."""
    from . import sessions

    return [name for name in sessions.names() if name.startswith(begun)]


def machine_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options MACHINE stands for; the command gets `open_session` instead of them."""
    options = (
        click.option(
            "--arch",
            metavar="NAME",
            callback=architecture,
            default=arches.DEFAULT,
            show_default=True,
            help=f"Architecture of the machine: {_listed(arches.built_in())}, or that of "
            "another package, as `port list` tells.",
            shell_complete=begun_architectures,
        ),
        click.option(
            "--kernel",
            metavar="NAME|ELF",
            type=ANY_PATH,
            help="Kernel to boot: another build of the teaching kernel "
            f"({_listed(arches.builds(), 'or')}), or an image of your own.",
        ),
        click.option(
            "--module",
            "modules",
            metavar="KO",
            type=ANY_PATH,
            multiple=True,
            help="Module to load after the boot, by path or by name; may be repeated.",
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
            help="How text is changed; the default is the architecture's.",
        ),
        click.option(
            "--nop",
            metavar="NAME",
            help="How call sites are disabled, where the architecture has several ways; a name "
            "that does not exist lists those that do.",
        ),
        click.option(
            "--discovery",
            type=click.Choice(DISCOVERIES),
            help="How call sites are found; the default is the kernel's.",
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
            config.check(context)
        chosen = context.get_parameter_source("arch")
        given = arch if chosen is click.core.ParameterSource.COMMANDLINE else None
        name, image = arches.build(given, kernel)
        # A setting holds unless the kernel says of which port it is.
        if given is None and image == kernel:
            name = arch

        machine = Described(
            name, image, modules, cpus, patch, nop, discovery, config.origin(context, "patch")
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
    help="Keep the console's session, or go on with one that was kept.",
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
    """See Linux dynamic ftrace happen.

    Without a COMMAND, opens the console on the machine the OPTIONS describe.
    """
    if context.invoked_subcommand is not None:
        for name in context.params:
            source = context.get_parameter_source(name)
            if source is click.core.ParameterSource.COMMANDLINE:
                if name in ("theme", "session"):
                    raise click.UsageError(f"--{name} is for the console, and goes with no command")
                shown = {"modules": "module"}.get(name, name)
                raise click.UsageError(
                    f"--{shown} goes behind the command: "
                    f"dynftrace {context.invoked_subcommand} --{shown} …"
                )
        return
    # A web server's driver takes the terminal's place.
    if "TEXTUAL_DRIVER" not in os.environ and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DynftraceError("the console needs a terminal; dynftrace sh works without one")
    # Read by the toolkit when it is imported: a key is painted within 8 ms instead of 16.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    from .console import run_console

    keeper = None if session is None else _keeper(context, session, open_session)
    context.exit(
        run_console(
            open_session,
            theme_name=theme,
            theme_from=config.origin(context, "theme"),
            keeper=keeper,
        )
    )


def _keeper(context: click.Context, name: str, described: Described) -> Keeper:
    """Who keeps the session `name`, which was kept before or begins on the machine `described`.

    Raises `UsageError` where that is given, and another than it was kept on.
    """
    from . import sessions
    from .keeper import Keeper

    here = replace(
        described,
        kernel=described.kernel and os.path.abspath(described.kernel),
        modules=tuple(_absolute(module) for module in described.modules),
    )
    saved = sessions.load(name)
    if saved is not None:
        for option in ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery"):
            source = context.get_parameter_source(option)
            # The name of a build is an architecture of its own.
            field = "arch" if option == "kernel" and here.kernel is None else option
            was, given = getattr(saved.machine, field), getattr(here, field)
            if source is click.core.ParameterSource.COMMANDLINE and was != given:
                shown = {"modules": "module"}.get(option, option)
                raise UsageError(
                    f"session {name} has another --{shown}: {_shown(was)}, not {_shown(given)}"
                )
        if context.get_parameter_source("theme") is click.core.ParameterSource.COMMANDLINE:
            saved = replace(saved, layout=replace(saved.layout, theme=None))
    return Keeper(name, here, saved)


def _absolute(module: str) -> str:
    """A module's path, which holds in every folder; its name, where it is none."""
    return os.path.abspath(module) if "/" in module or module.endswith(".ko") else module


def _shown(value: object) -> str:
    """A value of an option as it is given."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "the default" if value is None else str(value)


@dynftrace.command(name="sh", short_help="The tracefs shell.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", help="Execute these commands and end.")
@click.argument("script", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.pass_context
def shell(
    context: click.Context,
    commands: str | None,
    script: Path | None,
    open_session: Callable[[], Session],
) -> None:
    """The tracefs shell: CMDS, a script FILE, or commands from stdin.

    `help` in it lists its commands. The status is that of the last command.
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


@dynftrace.command(short_help="The table of call sites.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@click.option("--json", "json", is_flag=True, help="A list of objects.")
@click.option("--csv", "csv", is_flag=True, help="Comma-separated values with a header.")
def sites(
    commands: str,
    json: bool,
    csv: bool,
    open_session: Callable[[], Session],
) -> None:
    """The table of call sites: address, name, module, bytes as compiled, bytes now, state."""
    from ..core.shell.text.site_table import as_csv, as_json, as_text
    from ..core.views.site_table import site_rows
    from .prompt import run_before

    if json and csv:
        raise click.UsageError("give either --json or --csv, not both")
    session = open_session()
    run_before(session, commands)
    rows = site_rows(session.ftrace, session.machine.memory)
    sys.stdout.write((as_json if json else as_csv if csv else as_text)(rows))


@dynftrace.command(name="arches", short_help="The architectures, side by side.")
def architectures() -> None:
    """The architectures: call sites in their forms, how far a call reaches, how modules call.

    Those of other packages too; at the call site of schedule, where the kernel has it.
    """
    from ..core.shell.text.support import support_lines
    from ..core.views.support import support

    ports = {name: support(arches.load(name)) for name in arches.names()}
    sys.stdout.writelines(f"{line}\n" for line in support_lines(ports))


@dynftrace.command(short_help="One function on every architecture.")
@click.argument("function", default="schedule", metavar="[FUNC]")
@click.option("--markdown", is_flag=True, help="As a table of Markdown, as the README has it.")
def compare(function: str, markdown: bool) -> None:
    """The call site of FUNC on every architecture: compiled, disabled, enabled, and its way."""
    from .compare import compared, compared_table

    if markdown:
        sys.stdout.write(compared_table(function))
    else:
        sys.stdout.writelines(f"{line}\n" for line in compared(function))


@dynftrace.command(short_help="A picture of the console, as SVG.")
@machine_options
@click.option("-c", "commands", metavar="CMDS", default="", help="Commands to execute first.")
@click.option(
    "--screen",
    metavar="NAME",
    default="main",
    show_default=True,
    help="What to show; a name that does not exist lists those that do.",
    shell_complete=begun_screens,
)
@click.option(
    "--size",
    metavar="COLSxROWS",
    default="120x40",
    show_default=True,
    help="Columns and rows of the terminal in the picture.",
)
@click.option("--theme", metavar="NAME", help="Its colours; without any where NO_COLOR is set.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="SVG file to write; one that exists is replaced as a whole.",
)
def screenshot(
    commands: str,
    screen: str,
    size: str,
    theme: str | None,
    output: Path,
    open_session: Callable[[], Session],
) -> None:
    """A picture of the console, after CMDS, as SVG."""
    from .picture import parse_size, take_picture
    from .wholefile import write_whole

    picture = take_picture(open_session, commands, screen, parse_size(size), theme)
    write_whole(output, picture)


def run(arguments: Sequence[str]) -> int:
    """Execute a command line, without the program's name; returns the exit status."""
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
        # Nobody reads any more; the interpreter must not try to flush again.
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
    """The program."""
    sys.exit(run(sys.argv[1:]))
