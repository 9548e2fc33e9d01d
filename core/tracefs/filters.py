"""The functions to trace: set_ftrace_filter, set_ftrace_notrace and similar files.

A file is opened with the present choice or, by `>`, with an empty one. Each word written
adds or removes functions, and closing the file makes the new choice effective. A word that
matches nothing is refused (the writer gets EINVAL), but the emptying and the words before
it remain effective. A word with `:mod:` that matches nothing is stored until such a module
is loaded.
Source: ftrace_regex_open(), ftrace_regex_write(), ftrace_regex_release(),
cache_mod() and process_cached_mods() in kernel/trace/ftrace.c.

set_ftrace_filter also accepts commands, which do not change the choice (commands.py).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ..errors import TracefsError
from ..ftrace.filter import FilterWord, FunctionNames, parse_words, select
from ..ftrace.ftrace import Ftrace
from ..ftrace.ops import FtraceHash
from .commands import Commands
from .functions import FunctionTable
from .graph import Graph
from .tree import File, Handle

ALL, NONE = "#### all functions enabled ####", "#### no functions disabled ####"


class Filtered(Protocol):
    """A trace array, as far as set_ftrace_filter and set_ftrace_notrace need it."""

    def hash(self, notrace: bool) -> FtraceHash:
        """Return the functions to trace, or with `notrace` those not to trace."""
        ...

    def set_hash(self, notrace: bool, chosen: FtraceHash) -> None:
        """Choose these functions. Raises `FtraceBug`."""
        ...


class GraphFiltered(Filtered, Protocol):
    """The top trace array, as far as these files need it."""

    @property
    def commands(self) -> Commands:
        """The commands of set_ftrace_filter."""
        ...

    @property
    def graph(self) -> Graph:
        """The graph tracer."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of functions: how it is read and changed."""

    get: Callable[[], FtraceHash]
    put: Callable[[FtraceHash], None]
    none: str
    """Content of the file before any choice."""


class FilterFile(File):
    """A file that shows and changes a choice of functions."""

    mode = 0o644

    def __init__(
        self,
        ftrace: Ftrace,
        functions: FunctionTable,
        choice: Choice,
        commands: Commands | None = None,
    ) -> None:
        """With `commands`, the file also accepts and shows commands."""
        self.ftrace = ftrace
        self.functions = functions
        self.choice = choice
        self.commands = commands
        self.waiting: list[FilterWord] = []
        """Words with `:mod:` whose module is not loaded yet."""

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file; ENODEV once a bug has shut ftrace off."""
        if self.ftrace.disabled:
            raise TracefsError(errno.ENODEV)
        return FilterEdit(self, truncate) if write else Handle(self)

    def read(self) -> str:
        """Return the chosen functions, one a line, or `Choice.none`; then the commands."""
        commands = [] if self.commands is None else self.commands.lines(self.functions)
        return "".join(line + "\n" for line in (*self._chosen_lines(), *commands))

    def _chosen_lines(self) -> list[str]:
        chosen = self.choice.get()
        if chosen.empty and not self.waiting:
            return [self.choice.none]
        lines = [] if chosen.empty else self.functions.lines_of(chosen.ips)
        if chosen.empty and self.choice.none == ALL:
            lines = [ALL]
        waiting = [f"{word.function or '*'}:mod:{_module(word)}" for word in self.waiting]
        return [*lines, *waiting]

    def module_loaded(self, name: str) -> None:
        """Apply the words that wait for the module `name`. Raises `FtraceBug`."""
        if not self.waiting:
            return
        names = self.functions.names()
        chosen = self.choice.get()
        still: list[FilterWord] = []
        for word in self.waiting:
            rows = names.select(word)
            if len(rows):
                ips = self.functions.ips(rows)
                chosen = chosen.discard(ips) if word.remove else chosen.add(ips)
            else:
                still.append(word)
        if len(still) < len(self.waiting):
            self.choice.put(chosen)
            self.waiting = still


_ENDED = re.compile(r"(?:.*\s)?", re.DOTALL)
"""Text up to its last blank."""


class FilterEdit(Handle):
    """A filter file opened for writing."""

    def __init__(self, file: FilterFile, truncate: bool) -> None:
        super().__init__(file)
        self._filter = file
        self._chosen = FtraceHash() if truncate else file.choice.get()
        self._begun = ""
        """The last word as far as it is written: blanks have not ended it yet."""
        if truncate:
            file.waiting.clear()

    def write(self, text: str) -> None:
        """Apply the words that end in a blank; raises `TracefsError` (EINVAL) at the first bad one.

        As in the kernel, a word at the end of `text` may continue in the next write.
        """
        text = self._begun + text
        ended = _ENDED.match(text)
        assert ended is not None
        self._begun = text[ended.end() :]
        self._apply(ended[0])

    def _apply(self, text: str) -> None:
        functions, commands = self._filter.functions, self._filter.commands
        names = functions.names()
        for word in parse_words(text):
            if word.command is not None and commands is not None:
                commands.take(functions, word)
            else:
                self._take(names, word)

    def close(self) -> None:
        """Make the choice effective, unless a bug has shut ftrace off. Raises `FtraceBug`.

        A last word without a blank after it is applied now. As in the kernel, whose release cannot
        report errors, an error in it is dropped.
        """
        super().close()
        with suppress(TracefsError):
            self._apply(self._begun)
        if not self._filter.ftrace.disabled:
            self._filter.choice.put(self._chosen)

    def _take(self, names: FunctionNames, word: FilterWord) -> None:
        rows = select(names, word)
        if len(rows):
            ips = self._filter.functions.ips(rows)
            self._chosen = self._chosen.discard(ips) if word.remove else self._chosen.add(ips)
            return
        waiting = self._filter.waiting
        same = [each for each in waiting if _key(each) == _key(word)]
        if word.remove:
            if not same:
                raise TracefsError(errno.EINVAL)
            waiting.remove(same[0])
        elif not same:
            waiting.append(word)


def _module(word: FilterWord) -> str:
    return ("!" if word.exclude_module else "") + (word.module or "")


def _key(word: FilterWord) -> tuple[str, str]:
    return word.function or "*", _module(word)


def function_files(
    array: Filtered, ftrace: Ftrace, functions: FunctionTable, commands: Commands | None = None
) -> Mapping[str, FilterFile]:
    """Return set_ftrace_filter, with `commands` if any, and set_ftrace_notrace."""
    chosen = Choice(partial(array.hash, False), partial(array.set_hash, False), ALL)
    left_out = Choice(partial(array.hash, True), partial(array.set_hash, True), NONE)
    return {
        "set_ftrace_filter": FilterFile(ftrace, functions, chosen, commands),
        "set_ftrace_notrace": FilterFile(ftrace, functions, left_out),
    }


def files(
    array: GraphFiltered, ftrace: Ftrace, functions: FunctionTable
) -> Mapping[str, FilterFile]:
    """Return the files of this module by name."""
    graph = array.graph
    choices = {
        "set_graph_function": Choice(
            lambda: graph.settings.graph,
            lambda chosen: graph.configure(replace(graph.settings, graph=chosen)),
            ALL,
        ),
        "set_graph_notrace": Choice(
            lambda: graph.settings.notrace,
            lambda chosen: graph.configure(replace(graph.settings, notrace=chosen)),
            NONE,
        ),
    }
    return {
        **function_files(array, ftrace, functions, array.commands),
        **{name: FilterFile(ftrace, functions, choice) for name, choice in choices.items()},
    }
