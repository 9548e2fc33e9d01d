"""Write the man page and the completions: `python -m dynftrace.tui.manual.manpage FOLDER`.

The man page holds the `--help` texts of all commands in man(7) macros. The completions are
click's scripts, one for each shell, which run the program. The files are in `tui/manual/share/`
with the paths they are installed to below `share/`. A test compares them with what this
module generates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from ... import __version__
from ...core.shell.shell import NOT_FOUND
from ..cli import dynftrace
from ..cli.exit_status import FAILED, INTERRUPTED, USAGE
from ..files.whole_file import write_whole
from ..saved.settings import SETTINGS

PAGE = "man/man1/dynftrace.1"
COMPLETIONS = {
    "bash": "bash-completion/completions/dynftrace",
    "zsh": "zsh/site-functions/_dynftrace",
    "fish": "fish/vendor_completions.d/dynftrace.fish",
}
"""Path of each shell's completion script, below `share/`."""

MENDED = {
    # click's test holds only while zsh loads the function: later TABs would complete nothing.
    "zsh": {"$zsh_eval_context[-1] == loadautofunc": "$funcstack[1] == _dynftrace"},
    # Without this, fish cuts a description at its first comma.
    "fish": {'string split ","': 'string split --max 1 ","'},
}
"""Text to replace in click's scripts, and its replacement, by shell."""

FILES = {
    "~/.config/dynftrace/config.toml": f"Defaults for the options {', '.join(SETTINGS)}, "
    'such as arch = "arm64" or cpus = 4. Options on the command line take precedence. '
    "A table [keys] works as in keymap.toml.",
    "~/.config/dynftrace/keymap.toml": "Keys of the console: a table [keys] with lines such as "
    'functions.toggle = "x". An unknown id lists the valid ones.',
    "~/.local/state/dynftrace/history": "History of the interactive shell.",
    "~/.local/state/dynftrace/tours.json": "Progress in each tour.",
}
"""The user's files, and their contents."""

STATUSES = {
    "0": "Success. The status of sh is that of its last command.",
    str(FAILED): "Failure; standard error says why.",
    str(USAGE): "The command line is wrong.",
    str(NOT_FOUND): "sh: the last command does not exist.",
    "128+N": f"A signal N ended the program: {INTERRUPTED} for ctrl+c.",
}


def escaped(text: str) -> str:
    """Return `text` on one line, escaped so that roff prints it unchanged."""
    marks = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    line = "".join(marks.get(mark, mark) for mark in " ".join(text.split()))
    line = "".join(mark if mark.isascii() else rf"\[u{ord(mark):04X}]" for mark in line)
    # A leading dot would start a request; a leading quote was escaped above.
    return rf"\&{line}" if line.startswith(".") else line


def page() -> str:
    """Return the man page of all commands."""
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
        "XDG_CONFIG_HOME, if set, replaces ~/.config; XDG_STATE_HOME replaces ~/.local/state."
    )
    yield ".SH LICENSE"
    yield escaped("GPL-2.0-or-later")


def _commands(parent: click.Context) -> Iterator[click.Context]:
    """Yield all subcommands in order, a group before its members."""
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
    """Yield each option with its metavar, and its help text."""
    for option in context.command.get_params(context):
        record = option.get_help_record(context)
        if isinstance(option, click.Option) and record is not None:
            yield record


def _options(context: click.Context, described: dict[str, str]) -> Iterator[str]:
    """Yield the options, but only the names of those that `described` has with the same text."""
    records = [each for each in _records(context) if not described or "--help" not in each[0]]
    old = [name for name, text in records if described.get(name) == text]
    if old:
        yield ".PP"
        names = [rf"\fB{escaped(name.split()[0].rstrip(','))}\fR" for name in old]
        yield f"As above: {', '.join(names)}."
    yield from _entries((name, text) for name, text in records if name not in old)


def _entries(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a tagged paragraph for each name and text."""
    for name, text in entries:
        yield ".TP"
        # Allow a line break after each choice.
        yield rf"\fB{escaped(name)}\fR".replace("|", r"|\:")
        yield escaped(text)


def completion(shell: str) -> str:
    """Return the completion script of `shell`, one of `COMPLETIONS`."""
    found = get_completion_class(shell)
    assert found is not None, shell
    # The method of the bash class would start bash to check its version.
    script = ShellComplete.source(found(dynftrace, {}, "dynftrace", "_DYNFTRACE_COMPLETE"))
    for wrong, right in MENDED.get(shell, {}).items():
        assert wrong in script, shell
        script = script.replace(wrong, right)
    return script


def files() -> dict[str, str]:
    """Return the files installed below `share/`: path and text of each."""
    return {PAGE: page()} | {path: completion(shell) for shell, path in COMPLETIONS.items()}


def main(folder: Path) -> None:
    """Write all files below `folder`."""
    for path, text in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / path, text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tui/manual/share"))
