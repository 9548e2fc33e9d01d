"""The man page and the completions: `python -m dynftrace.tui.manual tui/share`.

The page is what the commands say of themselves with `--help`, in the macros of
man(7); the completions are click's scripts, one a shell, which ask the program. They
lie in `tui/share/` as they are installed below `share/`, and a test compares them with
what comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from .. import __version__
from .cli import dynftrace
from .config import SETTINGS
from .wholefile import write_whole

PAGE = "man/man1/dynftrace.1"
COMPLETIONS = {
    "bash": "bash-completion/completions/dynftrace",
    "zsh": "zsh/site-functions/_dynftrace",
    "fish": "fish/vendor_completions.d/dynftrace.fish",
}
"""Where a shell looks for them, below `share/`."""

MENDED = {
    # Only the first TAB loads the function; the second would complete nothing.
    "zsh": {"$zsh_eval_context[-1] == loadautofunc": "$funcstack[1] == _dynftrace"},
    # What an option does is told up to the first comma otherwise.
    "fish": {'string split ","': 'string split --max 1 ","'},
}
"""What click's scripts have and should have, by shell."""

FILES = {
    "~/.config/dynftrace/config.toml": f"Defaults for the options {', '.join(SETTINGS)}, "
    'which win over them: lines such as arch = "arm64" and cpus = 4. '
    "A table [keys] there is as in keymap.toml.",
    "~/.config/dynftrace/keymap.toml": "Keys of the console, by the ids its help tells: "
    'a table [keys] with lines such as functions.toggle = "x".',
    "~/.local/state/dynftrace/history": "What was typed at the shell.",
    "~/.local/state/dynftrace/tours.json": "How far one has come in each tour.",
}
STATUSES = {
    "0": "All went well; of sh, its last command.",
    "1": "Something could not be done; standard error has a sentence on it.",
    "2": "The command line makes no sense.",
    "130": "Interrupted.",
}


def escaped(text: str) -> str:
    """`text` for roff: it stands for itself, whichever characters it has, on one line."""
    marks = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    line = "".join(marks.get(mark, mark) for mark in " ".join(text.split()))
    line = "".join(mark if mark.isascii() else rf"\[u{ord(mark):04X}]" for mark in line)
    # A request begins with a dot; a quotation mark got its name above.
    return rf"\&{line}" if line.startswith(".") else line


def page() -> str:
    """The man page, of all commands."""
    return "".join(f"{line}\n" for line in _page())


def _page() -> Iterator[str]:
    top = click.Context(dynftrace, info_name="dynftrace", **dynftrace.context_settings)
    first, *others = _paragraphs(dynftrace)
    commands = list(_commands(top))
    yield f'.TH DYNFTRACE 1 "" "dynftrace {escaped(__version__)}" "User Commands"'
    yield ".SH NAME"
    yield rf"dynftrace \- {escaped(first[:1].lower() + first[1:].rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield _usage(top)
    for context in commands:
        yield ".br"
        yield _usage(context)
    yield ".SH DESCRIPTION"
    yield from _text(others)
    yield ".SH OPTIONS"
    yield from _options(top, {})
    yield ".SH COMMANDS"
    described = dict(_records(top))
    for context in commands:
        yield f".SS {escaped(context.command_path)}"
        yield from _text(_paragraphs(context.command))
        yield from _options(context, described)
    yield ".SH EXIT STATUS"
    yield from _entries(STATUSES.items())
    yield ".SH FILES"
    yield from _entries(FILES.items())
    yield ".PP"
    yield escaped(
        "XDG_CONFIG_HOME, if set, stands for ~/.config, XDG_STATE_HOME for ~/.local/state."
    )
    yield ".SH LICENSE"
    yield escaped("GPL-2.0-or-later")


def _commands(parent: click.Context) -> Iterator[click.Context]:
    """The subcommands in their order, a group before its own."""
    group = parent.command
    if isinstance(group, click.Group):
        for name in group.list_commands(parent):
            command = group.get_command(parent, name)
            assert command is not None, name
            context = click.Context(command, parent, info_name=name)
            yield context
            yield from _commands(context)


def _paragraphs(command: click.Command) -> list[str]:
    return cleandoc(command.help or "").split("\n\n")


def _text(paragraphs: list[str]) -> Iterator[str]:
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        yield escaped(paragraph)


def _usage(context: click.Context) -> str:
    pieces = " ".join(context.command.collect_usage_pieces(context))
    return rf"\fB{escaped(context.command_path)}\fR {escaped(pieces)}".rstrip()


def _records(context: click.Context) -> Iterator[tuple[str, str]]:
    """Each option with what it takes, and what its help says."""
    for option in context.command.get_params(context):
        record = option.get_help_record(context)
        if isinstance(option, click.Option) and record is not None:
            yield record


def _options(context: click.Context, described: dict[str, str]) -> Iterator[str]:
    """The options; those `described` already are told by name."""
    records = [each for each in _records(context) if not described or "--help" not in each[0]]
    old = [name for name, text in records if described.get(name) == text]
    if old:
        yield ".PP"
        names = [rf"\fB{escaped(name.split()[0].rstrip(','))}\fR" for name in old]
        yield f"As above: {', '.join(names)}."
    yield from _entries((name, text) for name, text in records if name not in old)


def _entries(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in entries:
        yield ".TP"
        # Lists of choices may be broken behind each.
        yield rf"\fB{escaped(name)}\fR".replace("|", r"|\:")
        yield escaped(text)


def completion(shell: str) -> str:
    """The script of `shell`, one of `COMPLETIONS`."""
    found = get_completion_class(shell)
    assert found is not None, shell
    # Not the class's own: that of bash starts bash, to see whether it is too old.
    script = ShellComplete.source(found(dynftrace, {}, "dynftrace", "_DYNFTRACE_COMPLETE"))
    for wrong, right in MENDED.get(shell, {}).items():
        assert wrong in script, shell
        script = script.replace(wrong, right)
    return script


def files() -> dict[str, str]:
    """What is installed below `share/`: each file's path there, and its text."""
    return {PAGE: page()} | {path: completion(shell) for shell, path in COMPLETIONS.items()}


def main(folder: Path) -> None:
    """Write all of them below `folder`."""
    for path, text in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / path, text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tui/share"))
