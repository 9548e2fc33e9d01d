"""The functions that a word written to set_ftrace_filter selects.

A write is a list of words separated by white space. A word is a pattern of function
names, a 1-based line number of available_filter_functions, or one of these followed by
`:mod:MODULE` or `:command[:parameter]`; a leading `!` removes functions. Patterns are
those of glob_match(): `*` any run, `?` any one byte, `[a-z]` and `[!a-z]` classes, `\\`
takes the next byte literally; an
unclosed class is a plain bracket. Source: filter_parse_regex(), match_records()
and ftrace_process_regex() in kernel/trace, lib/glob.c.

In some ABIs, names of code begin with a prefix, which the file then shows. A pattern
without the prefix is matched against the names without it. Source:
arch_ftrace_match_adjust().

All names are matched at once, in one buffer that holds them all. A pattern is cut at its
stars into pieces of fixed length. The first and the last piece are anchored, and each
piece between them is matched at its leftmost place. For a glob this suffices without
backtracking: the time is at most the length of the names times that of the pattern.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import TracefsError

FTRACE_BUFF_MAX = 1024
"""Longest accepted word, in bytes."""

Rows: TypeAlias = NDArray[np.intp]
"""Indices of records, ascending, shape (n,)."""

_Item: TypeAlias = int | bytes
"""One byte of a pattern: that byte, or any byte of the set."""

_ANY = bytes(range(1, 256))


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern, cut at its stars: `a*b?` is (a), (b, any)."""

    text: str
    pieces: tuple[tuple[_Item, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Glob:
        """Parse a pattern; every text is valid."""
        pattern = _encode(text)
        pieces: list[list[_Item]] = [[]]
        at = 0
        while at < len(pattern):
            byte = pattern[at : at + 1]
            at += 1
            if byte == b"*":
                pieces.append([])
            elif byte == b"?":
                pieces[-1].append(_ANY)
            elif byte == b"[" and (parsed := _parse_class(pattern, at)):
                members, at = parsed
                pieces[-1].append(members)
            elif byte == b"\\":
                pieces[-1].extend(pattern[at : at + 1])
                at += 1
            else:
                pieces[-1].append(byte[0])
        return cls(text, tuple(tuple(piece) for piece in pieces))

    @property
    def matches_all(self) -> bool:
        """Whether the pattern consists only of stars."""
        return len(self.pieces) > 1 and not any(self.pieces)

    def begins_with(self, prefix: str) -> bool:
        """Return whether the searched text begins with `prefix`, by the kernel's rule.

        A leading star is not part of the text if the rest is literal, but for a final star.
        """
        searched = self.text
        if searched[:1] == "*" and not set("*?[\\") & set(searched[1:].removesuffix("*")):
            searched = searched[1:]
        return searched.startswith(prefix)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _parse_class(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the members of the class that begins at `at` and its end; None if unclosed."""
    inverted = pattern[at : at + 1] == b"!"
    at += inverted
    members: set[int] = set()
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            return None
        low = high = pattern[at]
        at += 1
        if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] != b"]":
            if at + 1 >= len(pattern):
                return None
            high = pattern[at + 1]
            at += 2
        members.update(range(low, high + 1))
    if inverted:
        members = set(_ANY) - members
    return bytes(sorted(members)), at + 1


class NameTable:
    """Names laid out for matching: each followed by a zero byte, in one buffer.

    A pattern that does not begin with `prefix` is matched against names without it.
    """

    def __init__(self, names: Sequence[str], prefix: str = "") -> None:
        blob = _encode("\0".join(names) + "\0") if names else b""
        self._bytes = np.frombuffer(blob, np.uint8)
        self._ends = np.flatnonzero(self._bytes == 0)
        self._starts = np.empty_like(self._ends)
        if len(names):
            self._starts[0] = 0
            self._starts[1:] = self._ends[:-1] + 1
        if len(self._ends) != len(names):
            raise ValueError("a name holds a zero byte")
        self._prefix = prefix
        self._bare = self._starts
        if prefix:
            begins = [name.startswith(prefix) for name in names]
            self._bare = self._starts + len(_encode(prefix)) * np.array(begins, np.intp)

    def __len__(self) -> int:
        return len(self._ends)

    def match(self, glob: Glob) -> Rows:
        """Return the rows whose name `glob` matches."""
        if glob.matches_all:
            return np.arange(len(self))
        first, last = glob.pieces[0], glob.pieces[-1]
        alone = len(glob.pieces) == 1
        starts = self._starts if glob.begins_with(self._prefix) else self._bare
        length = self._ends - starts
        rows = np.flatnonzero(length == len(first) if alone else length >= len(first) + len(last))
        rows = rows[self._piece_at(starts[rows], first)]
        if alone:
            return rows
        rows = rows[self._piece_at(self._ends[rows] - len(last), last)]
        position = starts[rows] + len(first)
        limit = self._ends[rows] - len(last)
        for piece in glob.pieces[1:-1]:
            lead = next((at for at, item in enumerate(piece) if item != _ANY), len(piece))
            position = position + lead
            if rest := piece[lead:]:
                places = self._find(rest)
                after = np.searchsorted(places, position)
                found = after < len(places)
                rows, limit, after = rows[found], limit[found], after[found]
                position = places[after] + len(rest)
            inside = position <= limit
            rows, limit, position = rows[inside], limit[inside], position[inside]
        return rows

    def _is(self, places: NDArray[np.intp], item: _Item) -> NDArray[np.bool_]:
        here = self._bytes[places]
        return here == item if isinstance(item, int) else _members(item)[here]

    def _piece_at(self, places: NDArray[np.intp], piece: tuple[_Item, ...]) -> Rows:
        """Return the indices of those `places` at which `piece` matches; each has room for it."""
        chosen = np.arange(len(places))
        for offset, item in enumerate(piece):
            chosen = chosen[self._is(places[chosen] + offset, item)]
        return chosen

    def _find(self, piece: tuple[_Item, ...]) -> NDArray[np.intp]:
        """Return the places of `piece` in the buffer; its first item is not "any".

        A match that runs over the end of its name is included. It comes after all matches
        inside that name, so the caller uses it only if the name has no match inside.
        """
        head = piece[0]
        if isinstance(head, int):
            places = np.flatnonzero(self._bytes == head)
        else:
            places = np.flatnonzero(_members(head)[self._bytes])
        places = places[places <= len(self._bytes) - len(piece)]
        for offset, item in enumerate(piece[1:], 1):
            if item != _ANY:
                places = places[self._is(places + offset, item)]
        return places


def _members(item: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[np.frombuffer(item, np.uint8)] = True
    return table


@dataclass(frozen=True, slots=True)
class FilterWord:
    """One word of a write to set_ftrace_filter or set_ftrace_notrace.

    `function` is the text before the first colon, without `!`. `module` is the pattern
    after `:mod:` (None without it, empty for every module), and `exclude_module` its own
    `!`. `command` is any other word after the colon, with `parameter` (None without a
    second colon).
    """

    text: str
    remove: bool
    function: str
    module: str | None = None
    exclude_module: bool = False
    command: str | None = None
    parameter: str | None = None

    @property
    def is_index(self) -> bool:
        """Whether `function` is a line number."""
        return self.function[:1].isascii() and self.function[:1].isdigit()

    @property
    def index(self) -> int | None:
        """The line number from 1, decimal, octal or hex as in C; None if it is not a number."""
        digits = self.function
        base = 10
        if digits[:2] in ("0x", "0X"):
            digits, base = digits[2:], 16
        elif digits[:1] == "0" and len(digits) > 1:
            digits, base = digits[1:], 8
        # int() would also take underscores, signs and digits of other scripts.
        if len(digits) > 20 or not (digits.isascii() and digits.isalnum()):
            return None
        try:
            return int(digits, base)
        except ValueError:
            return None


def parse_words(text: str) -> tuple[FilterWord, ...]:
    """Return the words of one write, in order; the last needs no white space after it.

    Raises `TracefsError` (EINVAL) for a word longer than `FTRACE_BUFF_MAX`.
    """
    words = text.split()
    if any(len(_encode(word)) >= FTRACE_BUFF_MAX for word in words):
        raise TracefsError(errno.EINVAL)
    return tuple(_parse_word(word) for word in words)


def _parse_word(text: str) -> FilterWord:
    remove = text.startswith("!")
    function, colon, rest = text[remove:].partition(":")
    if not colon:
        return FilterWord(text, remove, function)
    command, colon, rest = rest.partition(":")
    parameter = rest if colon else None
    if command != "mod":
        return FilterWord(text, remove, function, command=command, parameter=parameter)
    if parameter is None:
        return FilterWord(text, remove, function)
    exclude = parameter.startswith("!")
    return FilterWord(text, remove, function, parameter[exclude:], exclude)


class FunctionNames:
    """The records for matching: each has a name and a module.

    `module` holds an index of `modules` for each record, -1 for the kernel's;
    `prefix` begins the names of code. No pattern matches the rows `hidden`.
    """

    def __init__(
        self,
        names: Sequence[str],
        module: NDArray[np.int32],
        modules: Sequence[str],
        prefix: str = "",
        hidden: Rows | None = None,
    ) -> None:
        if len(names) != len(module):
            raise ValueError("each record needs a name and a module")
        self._names = NameTable(names, prefix)
        self._module = module
        self._modules = NameTable(modules)
        self._visible = np.ones(len(names), np.bool_)
        if hidden is not None:
            self._visible[hidden] = False

    def __len__(self) -> int:
        return len(self._names)

    def match(self, pattern: str) -> Rows:
        """Return the rows whose name matches `pattern`, which is only a glob."""
        rows = self._names.match(Glob.parse(pattern))
        return rows[self._visible[rows]]

    def select(self, word: FilterWord, commands: frozenset[str] = frozenset()) -> Rows:
        """Return the records that `word` selects, to add or (`word.remove`) to remove.

        If the result is empty, the writer of a word without module gets EINVAL. Raises
        `TracefsError` (EINVAL) for a command not in `commands`, and for a line that does
        not exist.
        """
        if word.command is not None and word.command not in commands:
            raise TracefsError(errno.EINVAL)
        if word.is_index:
            index = word.index
            if index is None or not 1 <= index <= len(self):
                raise TracefsError(errno.EINVAL)
            return np.array([index - 1])
        if word.module is None:
            return self.match(word.function)
        inside = self._in_module(word.module, word.exclude_module)
        if not word.function:
            return np.flatnonzero(inside & self._visible)
        rows = self.match(word.function)
        return rows[inside[rows]]

    def _in_module(self, pattern: str, exclude: bool) -> NDArray[np.bool_]:
        glob = Glob.parse(pattern)
        if not pattern or glob.matches_all:
            inside: NDArray[np.bool_] = self._module >= 0
        else:
            # One more place at the end, for the kernel's -1.
            matched = np.zeros(len(self._modules) + 1, np.bool_)
            matched[self._modules.match(glob)] = True
            inside = matched[self._module]
        return ~inside if exclude else inside


def select(
    functions: FunctionNames, word: FilterWord, commands: frozenset[str] = frozenset()
) -> Rows:
    """Like `FunctionNames.select`, but raise `TracefsError` (EINVAL) if nothing matches.

    A word with `:mod:` may match nothing: the module can be loaded later.
    """
    rows = functions.select(word, commands)
    if not len(rows) and word.module is None:
        raise TracefsError(errno.EINVAL)
    return rows
