"""Words of the shell: quoting, globs and variables.

Quoting follows the Shell Command Language, sections 2.2 (quoting) and 2.3
(token recognition): between double quotes a backslash is special only before
`$`, `` ` ``, `"`, `\\` and a newline; a backslash before a newline continues
the line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import DynftraceError

OPERATORS = ("&&", "||", ">>", ">", ";", "\n", "|", "&", "<", "(", ")")
_ENDS_WORD = frozenset(" \t\r\n;&|<>")
_GLOB = frozenset("*?[]\\")
_PARTS = re.compile(r"([*?\[\]]+)|((?:\\.|[^*?\[\]\\])+)", re.DOTALL)
"""Parts of a word's pattern: glob characters, or other and quoted characters."""
_LITERAL = re.compile(r"\\(.)", re.DOTALL)


_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*|\?)\}|([A-Za-z_][A-Za-z0-9_]*|\?))")


_DESCRIPTOR = re.compile(r"([0-9]+)(>&|>>?|<)")
_SUBSTITUTION = re.compile(r"\$\(|`|\$\$")


class ShellSyntaxError(DynftraceError):
    """Text that is not a command list.

    `incomplete` is true if further lines could complete it.
    """

    def __init__(self, reason: str, *, incomplete: bool = False) -> None:
        super().__init__(f"syntax error: {reason}")
        self.incomplete = incomplete


@dataclass(frozen=True, slots=True)
class Expansion:
    """`$name` in a word: its slices of the word's `text` and `pattern`."""

    name: str
    text: slice
    pattern: slice


@dataclass(frozen=True, slots=True)
class Word:
    """A word after quote removal.

    `pattern` is the same word as a glob, in which quoted characters match themselves.
    """

    text: str
    pattern: str
    columns: tuple[int, ...] = field(compare=False)
    """Typed column of each character of `text`, and of the word's end; from 0."""
    expansions: tuple[Expansion, ...] = field(default=(), compare=False)
    """Variables in the word, in order."""
    quoted: bool = field(default=False, compare=False)
    """Whether any of it was between quotes."""

    def expand(self, variables: Mapping[str, str]) -> Word:
        """Return the word with the values of `variables`; other names stay as they are.

        A value is one literal word: it is neither split nor a glob.
        """
        text, pattern, columns = self.text, self.pattern, list(self.columns)
        for each in reversed(self.expansions):
            value = variables.get(each.name)
            if value is None:
                continue
            literal = "".join("\\" + one if one in _GLOB else one for one in value)
            text = text[: each.text.start] + value + text[each.text.stop :]
            pattern = pattern[: each.pattern.start] + literal + pattern[each.pattern.stop :]
            columns[each.text] = [columns[each.text.start]] * len(value)
        return Word(text, pattern, tuple(columns), quoted=self.quoted)

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
class Operator:
    """Text between words that is not a word."""

    text: str


def tokens(text: str) -> Iterator[Word | Operator]:
    """Yield the words and operators of `text` in order. Raises `ShellSyntaxError`."""
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
        elif match := _DESCRIPTOR.match(text, at):
            if match[1] != "2" or match[2] == "<":
                raise ShellSyntaxError(
                    f"'{match[0]}' redirects file descriptor {match[1]}: "
                    f"put a blank before '{match[2]}'"
                )
            at = match.end()
            yield Operator("2>&" if match[2] == ">&" else "2>")
        elif operator := next((o for o in OPERATORS if text.startswith(o, at)), None):
            at += len(operator)
            yield Operator(operator)
        else:
            word, at = _word(text, at)
            yield word


def _word(text: str, at: int) -> tuple[Word, int]:
    """Return the word that begins at `at`, and its end."""
    plain: list[str] = []
    pattern: list[str] = []
    columns: list[int] = []
    expansions: list[Expansion] = []
    quoted = False

    def literal(part: Iterable[tuple[int, str]]) -> None:
        for column, character in part:
            columns.append(column)
            plain.append(character)
            pattern.extend(("\\", character) if character in _GLOB else (character,))

    def variable(match: re.Match[str]) -> None:
        start, from_pattern = len(plain), len(pattern)
        literal(enumerate(match[0], match.start()))
        whole = slice(start, len(plain)), slice(from_pattern, len(pattern))
        expansions.append(Expansion(match[1] or match[2], *whole))

    while at < len(text) and text[at] not in _ENDS_WORD:
        character = text[at]
        if character == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string", incomplete=True)
            literal(enumerate(text[at + 1 : end], at + 1))
            at, quoted = end + 1, True
        elif character == '"':
            quoted = True
            for each in _double_quoted(text, at + 1):
                if isinstance(each, re.Match):
                    variable(each)
                elif isinstance(each, tuple):
                    literal([each])
                else:
                    at = each
        elif character == "\\":
            if at + 1 == len(text):
                literal([(at, "\\")])
            elif text[at + 1] != "\n":
                literal([(at + 1, text[at + 1])])
            at += 2
        elif character == "$" and (match := _VARIABLE.match(text, at)):
            variable(match)
            at = match.end()
        elif match := _SUBSTITUTION.match(text, at):
            raise _not_substituted(match[0])
        else:
            columns.append(at)
            plain.append(character)
            pattern.append(character)
            at += 1
    found = Word("".join(plain), "".join(pattern), (*columns, at), tuple(expansions), quoted)
    return found, at


def _not_substituted(begin: str) -> ShellSyntaxError:
    if begin == "$$":
        return ShellSyntaxError(
            "'$$': this shell is not a task of the guest: write the PID of one, as in the trace"
        )
    return ShellSyntaxError(f"'{begin}': commands inside words are not supported")


def _double_quoted(text: str, at: int) -> Iterator[tuple[int, str] | re.Match[str] | int]:
    """Yield the characters up to the closing double quote, then the position after the quote.

    Each character has its position in `text`; a match is a variable.
    """
    while at < len(text):
        character = text[at]
        if character == '"':
            yield at + 1
            return
        if character == "\\" and at + 1 < len(text) and text[at + 1] in '$`"\\\n':
            if text[at + 1] != "\n":
                yield at + 1, text[at + 1]
            at += 2
        elif character == "$" and (match := _VARIABLE.match(text, at)):
            yield match
            at = match.end()
        elif match := _SUBSTITUTION.match(text, at):
            raise _not_substituted(match[0])
        else:
            yield at, character
            at += 1
    raise ShellSyntaxError("unterminated quoted string", incomplete=True)
