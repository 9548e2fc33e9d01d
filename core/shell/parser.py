"""Parser of the shell: text to words and commands.

The grammar is a small part of the POSIX shell's, enough for what people type at tracefs:
commands separated by `;`, newlines, `&&` and `||`; words with single quotes, double quotes
and backslashes; `#` comments; `>` and `>>` redirections of a command's output. There are no
variables: `$` is an ordinary character. So are parentheses inside a word, which instructions
need (`40(r1)`). Subshells, pipes and background jobs are rejected.

Quoting follows the Shell Command Language, sections 2.2 (quoting) and 2.3
(token recognition): between double quotes a backslash is special only before
`$`, `` ` ``, `"`, `\\` and a newline; a backslash before a newline continues
the line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from ..errors import DynftraceError

_OPERATORS = ("&&", "||", ">>", ">", ";", "\n", "|", "&", "<", "(", ")")
_ENDS_WORD = frozenset(" \t\r\n;&|<>")
_GLOB = frozenset("*?[]\\")
_PARTS = re.compile(r"([*?\[\]]+)|((?:\\.|[^*?\[\]\\])+)", re.DOTALL)
"""Parts of a word's pattern: glob characters, or other and quoted characters."""
_LITERAL = re.compile(r"\\(.)", re.DOTALL)


class ShellSyntaxError(DynftraceError):
    """Text that is not a command list.

    `incomplete` is true if further lines could complete it.
    """

    def __init__(self, reason: str, *, incomplete: bool = False) -> None:
        super().__init__(f"syntax error: {reason}")
        self.incomplete = incomplete


class Join(Enum):
    """When a command runs, depending on the status of the command before it."""

    ALWAYS = ";"
    AND = "&&"
    OR = "||"


@dataclass(frozen=True, slots=True)
class Word:
    """A word after quote removal.

    `pattern` is the same word as a glob, in which quoted characters match themselves.
    """

    text: str
    pattern: str
    columns: tuple[int, ...] = field(compare=False)
    """Where each character of `text` was typed, and where the word ends; counts from 0."""

    @property
    def is_glob(self) -> bool:
        """Whether it contains an unquoted `*`, `?` or `[`."""
        quoted = False
        for character in self.pattern:
            if quoted:
                quoted = False
            elif character == "\\":
                quoted = True
            elif character in "*?[":
                return True
        return False

    def __str__(self) -> str:
        """The word as it can be typed: quoted parts stay quoted."""
        parts = [
            bare if bare else shlex.quote(_LITERAL.sub(r"\1", quoted))
            for bare, quoted in _PARTS.findall(self.pattern)
        ]
        return "".join(parts) or "''"


@dataclass(frozen=True, slots=True)
class Redirection:
    """The file that a command's output goes to; `append` for `>>`."""

    path: Word
    append: bool


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Words and redirections, and when they run. `words` may be empty."""

    join: Join
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]
    begins_line: bool = field(default=False, compare=False)
    """Whether it is the first command of its line."""

    def __str__(self) -> str:
        """The command as it can be typed, without `join`."""
        parts = [str(word) for word in self.words]
        for to in self.redirections:
            parts += [">>" if to.append else ">", str(to.path)]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class _Operator:
    text: str


def parse(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands of `text` in order. Raises `ShellSyntaxError`."""
    commands: list[SimpleCommand] = []
    words: list[Word] = []
    redirections: list[Redirection] = []
    join, begins = Join.ALWAYS, True
    tokens = _tokens(text)
    for token in tokens:
        if isinstance(token, Word):
            words.append(token)
        elif token.text in (">", ">>"):
            target = next(tokens, None)
            if target is None:
                raise ShellSyntaxError(f"no file name after '{token.text}'")
            if not isinstance(target, Word):
                raise _unexpected(target)
            redirections.append(Redirection(target, token.text == ">>"))
        elif token.text in (";", "\n", "&&", "||"):
            if words or redirections:
                commands.append(SimpleCommand(join, tuple(words), tuple(redirections), begins))
                words, redirections, begins = [], [], token.text == "\n"
                join = Join.ALWAYS if token.text == "\n" else Join(token.text)
            elif token.text != "\n":
                raise _unexpected(token)
            elif join is Join.ALWAYS:
                begins = True
        else:
            raise _unexpected(token)
    if words or redirections:
        commands.append(SimpleCommand(join, tuple(words), tuple(redirections), begins))
    elif join is not Join.ALWAYS:
        raise ShellSyntaxError(f"no command after '{join.value}'", incomplete=True)
    return tuple(commands)


class Continuation:
    """Whether the lines of a command so far need another line. Each line is read once."""

    def __init__(self) -> None:
        self._quote = ""
        """The quote that is open."""
        self._joined = False
        """Whether the last token is `&&` or `||`."""

    def add(self, line: str) -> bool:
        """Return whether another line must follow `line`, the next one with its newline."""
        at, in_word = 0, bool(self._quote)
        while at < len(line):
            if self._quote:
                match = _QUOTED[self._quote].match(line, at)
                assert match is not None
                at = match.end() + 1
                if match.end() >= len(line):
                    return True
                self._quote = ""
                continue
            part = _PLAIN_PARTS.match(line, at)
            assert part is not None
            text = part[0]
            at = part.end()
            if text == "\\\n":
                if at == len(line):
                    return True
            elif text in ("'", '"'):
                self._quote, in_word, self._joined = text, True, False
            elif text == "#" and not in_word:
                end = line.find("\n", at)
                at = len(line) if end < 0 else end
            elif text == "\n" or text.isspace():
                in_word = False
            else:
                in_word = text not in _OPERATORS
                self._joined = text in ("&&", "||")
        return bool(self._quote) or self._joined


_QUOTED = {
    "'": re.compile(r"[^']*"),
    '"': re.compile(r'(?:[^"\\]|\\.)*+\\?', re.DOTALL),
}
"""Text up to the end of each kind of quote."""

_PLAIN_PARTS = re.compile(
    r"\\\n|\\.?|['\"#\n]|[ \t\r]+|&&|\|\||[;&|<>]|[^\\'\"#;&|<>\s]+|.", re.DOTALL
)
"""The parts of unquoted text."""


def _unexpected(operator: _Operator) -> ShellSyntaxError:
    shown = "newline" if operator.text == "\n" else f"'{operator.text}'"
    return ShellSyntaxError(f"{shown} unexpected")


def _tokens(text: str) -> Iterator[Word | _Operator]:
    at = 0
    while at < len(text):
        character = text[at]
        if character in " \t\r":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif character == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif operator := next((o for o in _OPERATORS if text.startswith(o, at)), None):
            at += len(operator)
            yield _Operator(operator)
        else:
            word, at = _word(text, at)
            yield word


def _word(text: str, at: int) -> tuple[Word, int]:
    """Return the word that begins at `at`, and its end."""
    plain: list[str] = []
    pattern: list[str] = []
    columns: list[int] = []

    def literal(part: Iterable[tuple[int, str]]) -> None:
        for column, character in part:
            columns.append(column)
            plain.append(character)
            pattern.append("\\" + character if character in _GLOB else character)

    while at < len(text) and text[at] not in _ENDS_WORD:
        character = text[at]
        if character == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string", incomplete=True)
            literal(enumerate(text[at + 1 : end], at + 1))
            at = end + 1
        elif character == '"':
            part, at = _double_quoted(text, at + 1)
            literal(part)
        elif character == "\\":
            if at + 1 == len(text):
                literal([(at, "\\")])
            elif text[at + 1] != "\n":
                literal([(at + 1, text[at + 1])])
            at += 2
        else:
            columns.append(at)
            plain.append(character)
            pattern.append(character)
            at += 1
    return Word("".join(plain), "".join(pattern), (*columns, at)), at


def _double_quoted(text: str, at: int) -> tuple[list[tuple[int, str]], int]:
    """Return what is before the closing double quote, and the position after that quote.

    Each character has its position in `text`.
    """
    parts: list[tuple[int, str]] = []
    while at < len(text):
        character = text[at]
        if character == '"':
            return parts, at + 1
        if character == "\\" and at + 1 < len(text) and text[at + 1] in '$`"\\\n':
            if text[at + 1] != "\n":
                parts.append((at + 1, text[at + 1]))
            at += 2
        else:
            parts.append((at, character))
            at += 1
    raise ShellSyntaxError("unterminated quoted string", incomplete=True)
