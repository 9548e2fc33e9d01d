"""The preview: one line about a command line's effect, shown while it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import TracefsError
from ..ftrace.filter import FunctionNames, parse_words
from ..tracefs.filters import FilterFile
from .parser import SimpleCommand, simple_commands
from .unknown import not_found
from .words import ShellSyntaxError

if TYPE_CHECKING:
    from .shell import Shell

NAMED = 20
"""Maximum number of functions that a preview names."""

_FILTER = "set_ftrace_filter"


def preview(shell: Shell, text: str) -> str:
    """Return what the last command of `text` would select, or its usage; "" if not yet known."""
    try:
        commands = simple_commands(text)
    except ShellSyntaxError as error:
        return "" if error.incomplete or text.rstrip().endswith(">") else str(error)
    if not commands or not commands[-1].words:
        return ""
    command = commands[-1]
    known = shell.commands.get(command.name)
    if known is None:
        begun = len(command.words) == 1 and not text[-1:].isspace()
        return "" if begun else not_found(command.name, shell.commands)
    chosen = _choice(shell, command) if command.name == "echo" and len(command.words) > 1 else ""
    return chosen or f"{known.synopsis}: {known.summary}"


def _choice(shell: Shell, command: SimpleCommand) -> str:
    """Say which functions an `echo` into a filter file would select; "" for other files.

    Until a file is typed, words that name functions are taken as for set_ftrace_filter.
    """
    tree = shell.session.boot.tracefs
    to = next((each for each in command.redirections[::-1] if each.takes_output), None)
    try:
        file = tree.node(shell.directory.absolute(to.path.text) if to else _FILTER)
        if not isinstance(file, FilterFile):
            return ""
        names = file.functions.names()
        hit = np.zeros(len(names), np.bool_)
        if to is not None and to.append:
            hit = file.choice.get().contains(file.functions.ips(np.arange(len(names))))
        wanted = " ".join(word.text for word in command.words[1:])
        missing = _select(names, wanted, hit)
    except TracefsError:
        return ""
    rows = np.flatnonzero(hit)
    if missing:
        return f"no function matches {missing!r}" if to else ""
    if to is None and not len(rows):
        return ""
    lines = file.functions.lines()
    shown = [lines[row].split()[0] for row in rows[:NAMED].tolist()]
    listed = f": {' '.join(shown)}{' …' if len(rows) > NAMED else ''}" if shown else ""
    return f"{len(rows):,} of {len(names):,} functions{listed}"


def _select(names: FunctionNames, words: str, hit: NDArray[np.bool_]) -> str:
    """Apply `words` to `hit`, shape (n,); return the first one that matches nothing, or ""."""
    for word in parse_words(words):
        if word.command is not None:
            continue
        rows = names.select(word)
        if not len(rows) and word.module is None:
            return word.function
        hit[rows] = not word.remove
    return ""
