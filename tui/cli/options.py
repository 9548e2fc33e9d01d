"""Options and completions that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ... import arches
from ...core.methods import DISCOVERIES, PATCH_METHODS
from ..files.status_line import StatusLine
from ..saved import settings
from ..saved.machine_options import MachineOptions

if TYPE_CHECKING:
    from ...core.session.session import Session

ANY_PATH = click.Path(readable=False)
"""A path that shells complete; the code that reads the file reports errors."""

FLAGS = {"modules": "module"}
"""Flags, without dashes, that differ from their parameter's name; the keys are these names."""


def completion_of(
    names: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a shell completion: the names in `names()` that start with the typed text."""

    def complete(context: click.Context, option: click.Parameter, typed: str) -> list[str]:
        return [name for name in names() if name.startswith(typed)]

    return complete


def session_names() -> Sequence[str]:
    """Return the names of the saved sessions."""
    from ..saved import session_file

    return session_file.names()


def listed(names: Sequence[str], last: str = "") -> str:
    """Return `a, b, c`, or with `last` before the last name: `a, b or c`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if last else ", ".join(names)


def flag(name: str) -> str:
    """Return the flag of the parameter `name`, such as `--module` for `modules`."""
    return f"--{FLAGS.get(name, name).replace('_', '-')}"


def given(context: click.Context, name: str) -> bool:
    """Return whether the parameter `name` is on the command line."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def architecture(context: click.Context, option: click.Parameter, name: str) -> str:
    """Return `name` if it is a port; raise `click.BadParameter` if not.

    Ports of other packages are searched last, because finding them takes time.
    """
    if not arches.known(name):
        known = ", ".join(map(repr, arches.names()))
        raise click.BadParameter(f"{name!r} is not one of {known}.", context, option)
    return name


theme_option = click.option(
    "--theme", metavar="NAME", help="Colours of the console, such as dynftrace-light."
)

first_commands_option = click.option(
    "-c", "commands", metavar="CMDS", default="", help="Commands to execute first."
)

trace_option = click.option(
    "--trace",
    "recorded",
    metavar="FILE",
    type=ANY_PATH,
    help="Use a recorded trace.dat instead of a machine.",
)


def check_recorded(commands: str | None) -> None:
    """Raise `click.UsageError` if options besides --trace FILE describe a machine."""
    context = click.get_current_context()
    for name in MACHINE:
        if given(context, name):
            raise click.UsageError(f"{flag(name)} describes a machine: --trace needs none")
    if commands:
        raise click.UsageError("-c needs a machine: --trace has none")


MACHINE = ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery", "stop_at")
"""Parameters of `machine_options`."""


def size_option(default: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the option for the size of the terminal in a picture."""
    return click.option(
        "--size",
        metavar="COLSxROWS",
        default=default,
        show_default=True,
        help="Columns and rows of the terminal in the picture.",
    )


def output_option(text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the option that names the file to write, with `text` as its help."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help=text,
    )


def opened(open_session: MachineOptions) -> Session:
    """Open a machine; if that takes seconds, the terminal shows how far it is."""
    from ...core.session.session import OPENING_STEPS

    line = StatusLine("opening the kernel", OPENING_STEPS)
    try:
        return open_session(line.step)
    finally:
        line.clear()


def machine_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options that describe a machine to `command`.

    The command receives one argument for all of them, `open_session`: a `MachineOptions`.
    """
    options = (
        click.option(
            "--arch",
            metavar="NAME",
            callback=architecture,
            default=arches.DEFAULT,
            show_default=True,
            help=f"Architecture of the machine: {listed(arches.built_in())}, or one from "
            "another package; `port list` shows all.",
            shell_complete=completion_of(arches.built_in),
        ),
        click.option(
            "--kernel",
            metavar="NAME|ELF",
            type=ANY_PATH,
            help="Kernel to boot: another build of the teaching kernel "
            f"({listed(arches.builds(), 'or')}), or your own: an ELF file, a vmlinuz, a package.",
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
        click.option(
            "--stop-at",
            metavar="FUNC",
            help="Stop the boot at a function: at ftrace_init, call sites are still as compiled.",
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
        stop_at: str | None,
        **others: object,
    ) -> object:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            settings.check(context)
        wanted = arch if given(context, "arch") else None
        port, image = wanted, kernel
        # A file is examined only when the machine is opened, because that loads every port.
        if kernel is None or kernel in arches.built_in():
            # The setting `arch` applies unless the kernel implies a port.
            port, image = arches.build(arch if kernel is None else wanted, kernel)

        machine = MachineOptions(
            port,
            image,
            modules,
            cpus,
            patch,
            nop,
            discovery,
            stop_at,
            settings.origin(context, "patch"),
        )
        return command(*args, open_session=machine, **others)

    decorated: Callable[..., object] = with_opener
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
