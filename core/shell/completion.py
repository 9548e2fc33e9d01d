"""Completion: candidates for the last word of a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..tracefs.commands import COMMANDS
from ..tracefs.tree import Directory, Tracefs
from .command import Argument, Command
from .directory import WorkingDirectory

if TYPE_CHECKING:
    from ..session.session import Session

MOST = 1000
"""Largest number of candidates: a kernel has 60,000 functions."""

_BREAKS = frozenset(" \t;\n>&|")


@dataclass(frozen=True, slots=True)
class Completion:
    """Candidates that can replace the last word, which begins at `start`."""

    start: int
    words: tuple[str, ...]


def complete(
    session: Session, commands: Mapping[str, Command], text: str, directory: WorkingDirectory
) -> Completion:
    """Return candidates for the last word of `text`; relative paths begin at `directory`."""
    start = max((at + 1 for at, character in enumerate(text) if character in _BREAKS), default=0)
    word = text[start:]
    before = text[:start].rstrip(" \t")
    command = max(before.rfind(mark) for mark in (";", "&", "|", "\n")) + 1
    given = before[command:].split()
    found: Iterable[str]
    if before.endswith(">"):
        found = _files(session.boot.tracefs, word, directory)
    elif not given:
        found = commands
    else:
        found = _arguments(session, commands, given[0], word, directory)
    matching = sorted({each for each in found if each.startswith(word)})
    return Completion(start, tuple(matching[:MOST]))


def _arguments(
    session: Session,
    commands: Mapping[str, Command],
    name: str,
    word: str,
    directory: WorkingDirectory,
) -> Iterable[str]:
    """Return possible arguments of the command `name`."""
    command = commands.get(name)
    kind = command.argument if command is not None else Argument.NONE
    if kind is Argument.FILE:
        if name == "echo":
            if ":" in word:
                return _commands(word)
            return [*session.tracers(), *_functions(session, word)] if word else []
        return _files(session.boot.tracefs, word, directory)
    if kind is Argument.FUNCTION:
        return _functions(session, word) if word else []
    if kind is Argument.WORKLOAD:
        return session.workloads()
    if kind is Argument.AVAILABLE_MODULE:
        return session.available_modules()
    if kind is Argument.LOADED_MODULE:
        return [module.name for module in session.boot.modules.loaded]
    if kind is Argument.COMMAND:
        return commands
    return []


def _functions(session: Session, word: str) -> Iterable[str]:
    """Return names of functions; if `word` lacks the ABI's prefix of code names, without it."""
    names = session.function_names()
    prefix = session.port.facts.abi.text_prefix
    if not prefix or word.startswith(prefix):
        return names
    return (name.removeprefix(prefix) for name in names)


def _commands(word: str) -> Iterable[str]:
    """Return the commands that may follow the functions of `word` in set_ftrace_filter."""
    functions = word.partition(":")[0]
    return (f"{functions}:{command}" for command in ("mod:", *COMMANDS))


def _files(tree: Tracefs, word: str, directory: WorkingDirectory) -> list[str]:
    """Return the paths in the directory of `word`; directories end in a slash."""
    folder = word[: word.rfind("/") + 1]
    if not tree.is_dir(directory.absolute(folder)):
        return []
    found = [path + "/" for path in tree.beside] if folder == "/" else []
    for name in tree.listdir(directory.absolute(folder)):
        below = folder + name
        found.append(
            below + "/" if isinstance(tree.node(directory.absolute(below)), Directory) else below
        )
    return found
