"""Parser of the shell: text to words and commands.

The grammar is a small part of the POSIX shell's, enough for what people type at tracefs:
pipelines separated by `;`, newlines, `&&` and `||`; `for NAME in WORDS; do …; done`;
`if …; then …; elif …; then …; else …; fi`; words with single quotes, double quotes and
backslashes; `#` comments; `>` and `>>` redirections of a command's output, `<` of its input,
`2>` of its errors (to /dev/null or `&1`). `$NAME` and `${NAME}` are variables and `$?` is the
last status; any other `$` is an ordinary character. So are parentheses inside a word, which
instructions need (`40(r1)`). All other shell syntax is rejected with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from .words import OPERATORS, Operator, ShellSyntaxError, Word, tokens


class Join(Enum):
    """When a pipeline runs, depending on the status of the one before it."""

    ALWAYS = ";"
    AND = "&&"
    OR = "||"


@dataclass(frozen=True, slots=True)
class Redirection:
    """Where input comes from (`<`), or where output (`>`, `>>`) or errors (`2>`, `2>&`) go."""

    path: Word
    """A file; after `2>&`, the number 1 for the destination of the output."""
    operator: str

    @property
    def append(self) -> bool:
        """Whether the file keeps its content."""
        return self.operator == ">>"

    @property
    def takes_output(self) -> bool:
        """Whether it is a file that the output goes to."""
        return self.operator in (">", ">>")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Words and redirections. `words` may be empty."""

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]

    @property
    def name(self) -> str:
        """The first word; empty if there are only redirections."""
        return self.words[0].text if self.words else ""

    def expand(self, variables: Mapping[str, str]) -> SimpleCommand:
        """Return the command with the values of `variables`."""
        return SimpleCommand(
            tuple(word.expand(variables) for word in self.words),
            tuple(Redirection(to.path.expand(variables), to.operator) for to in self.redirections),
        )

    def __str__(self) -> str:
        """The command as it can be typed."""
        parts = [str(word) for word in self.words]
        for to in self.redirections:
            parts.append(f"{to.operator}{'' if to.operator == '2>&' else ' '}{to.path}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One or more commands, each of which reads the output of the one before."""

    join: Join
    commands: tuple[SimpleCommand, ...]
    begins_line: bool = field(default=False, compare=False)
    """Whether it is the first step of its line, and in no loop."""

    def expand(self, variables: Mapping[str, str]) -> Pipeline:
        """Return the pipeline with the values of `variables`."""
        commands = tuple(each.expand(variables) for each in self.commands)
        return replace(self, commands=commands)

    def __str__(self) -> str:
        """The pipeline as it can be typed, without `join`."""
        return " | ".join(map(str, self.commands))


@dataclass(frozen=True, slots=True)
class Loop:
    """`for name in values; do body; done`."""

    join: Join
    name: str
    values: tuple[Word, ...]
    body: tuple[Step, ...]
    begins_line: bool = field(default=False, compare=False)
    """Whether it is the first step of its line, and in no other loop."""

    def __str__(self) -> str:
        """The loop as it can be typed on one line, without `join`."""
        values = "".join(f" {word}" for word in self.values)
        return f"for {self.name} in{values}; do {listed(self.body)}; done"


@dataclass(frozen=True, slots=True)
class Choice:
    """`if condition; then body; elif condition; then body; else otherwise; fi`."""

    join: Join
    branches: tuple[tuple[tuple[Step, ...], tuple[Step, ...]], ...]
    """Condition and body of `if` and of each `elif`."""
    otherwise: tuple[Step, ...]
    begins_line: bool = field(default=False, compare=False)
    """Whether it is the first step of its line, and in no loop."""

    def __str__(self) -> str:
        """The choice as it can be typed on one line, without `join`."""
        parts = [f"if {listed(when)}; then {listed(then)}; " for when, then in self.branches]
        end = f"else {listed(self.otherwise)}; " if self.otherwise else ""
        return "el".join(parts) + end + "fi"

    @property
    def body(self) -> tuple[Step, ...]:
        """All steps in it."""
        return (
            *(step for both in self.branches for part in both for step in part),
            *self.otherwise,
        )


Step = Pipeline | Loop | Choice


def listed(steps: Sequence[Step]) -> str:
    """Return the steps as they can be typed on one line."""
    text = ""
    for number, step in enumerate(steps):
        if number:
            text += f"{'' if step.join is Join.ALWAYS else ' '}{step.join.value} "
        text += str(step)
    return text


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENDS = ("do", "done", "then", "elif", "else", "fi")
"""Reserved words that end a list of commands."""
_RESERVED = ("for", "in", "if", *_ENDS)
_UNSUPPORTED = {
    "while": "loops with a condition are not supported: use `for`",
    "case": "not supported: use `if`",
    "{": "groups of commands are not supported",
    "!": "not supported: use `||`, or test ! CONDITION",
    "[[": "not supported: use `[`",
    "function": "functions are not supported",
}
DEEPEST = 16
"""Maximum depth of nested loops."""


def parse(text: str) -> tuple[Step, ...]:
    """Return the pipelines and loops of `text` in order. Raises `ShellSyntaxError`."""
    return _Parser(text).program()


def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return every command of `text` in order. Raises `ShellSyntaxError`."""

    def commands(steps: Iterable[Step]) -> Iterator[SimpleCommand]:
        for step in steps:
            yield from step.commands if isinstance(step, Pipeline) else commands(step.body)

    return tuple(commands(parse(text)))


class _Parser:
    """Recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._next: Word | Operator | None = next(self._tokens, None)
        self._depth = 0

    def program(self) -> tuple[Step, ...]:
        """Return everything up to the end of the text."""
        steps = self._list()
        if self._next is not None:
            raise _unexpected(self._next)
        return steps

    def _take(self) -> Word | Operator | None:
        taken, self._next = self._next, next(self._tokens, None)
        return taken

    def _at(self, *operators: str) -> bool:
        return isinstance(self._next, Operator) and self._next.text in operators

    def _at_keyword(self, *keywords: str) -> bool:
        return isinstance(self._next, Word) and _keyword(self._next) in keywords

    def _newlines(self) -> bool:
        """Skip newlines, and return whether there were any."""
        found = self._at("\n")
        while self._at("\n"):
            self._take()
        return found

    def _list(self) -> tuple[Step, ...]:
        """Return the steps up to the end, or to a word of `_ENDS` where a command could begin."""
        steps: list[Step] = []
        join = Join.ALWAYS
        while True:
            begins = self._newlines() and join is Join.ALWAYS
            if self._next is None or self._at_keyword(*_ENDS):
                if join is not Join.ALWAYS:
                    if self._next is not None:
                        raise _unexpected(self._next)
                    raise ShellSyntaxError(f"no command after '{join.value}'", incomplete=True)
                return tuple(steps)
            steps.append(self._step(join, self._depth == 0 and (begins or not steps)))
            join = Join.ALWAYS
            if self._at(";", "&&", "||"):
                operator = self._take()
                assert isinstance(operator, Operator)
                join = Join(operator.text)
            elif not self._at("\n"):
                if self._next is None or self._at_keyword(*_ENDS):
                    return tuple(steps)
                raise _unexpected(self._next)

    def _step(self, join: Join, begins_line: bool) -> Step:
        if self._at_keyword("for"):
            return self._nested(join, begins_line, self._loop)
        if self._at_keyword("if"):
            return self._nested(join, begins_line, self._choice)
        commands = [self._command()]
        while self._at("|"):
            self._take()
            self._newlines()
            if self._next is None:
                raise ShellSyntaxError("no command after '|'", incomplete=True)
            if self._at_keyword("for", "if"):
                raise ShellSyntaxError("a loop cannot be part of a pipeline")
            commands.append(self._command())
        return Pipeline(join, tuple(commands), begins_line)

    def _command(self) -> SimpleCommand:
        words: list[Word] = []
        redirections: list[Redirection] = []
        while self._next is not None:
            if isinstance(self._next, Word):
                words.append(self._next)
                self._take()
            elif self._at(">", ">>", "<", "2>", "2>&"):
                operator, target = self._take(), self._take()
                assert isinstance(operator, Operator)
                if target is None:
                    raise ShellSyntaxError(f"no file name after '{operator.text}'")
                if not isinstance(target, Word):
                    raise _unexpected(target)
                if operator.text == "2>&" and target.text != "1":
                    raise _unexpected(target)
                redirections.append(Redirection(target, operator.text))
            else:
                break
        if not words and not redirections:
            assert self._next is not None
            raise _unexpected(self._next)
        if words and words[0].text == words[0].pattern and words[0].text in _UNSUPPORTED:
            raise ShellSyntaxError(f"'{words[0].text}': {_UNSUPPORTED[words[0].text]}")
        return SimpleCommand(tuple(words), tuple(redirections))

    def _nested(
        self, join: Join, begins_line: bool, read: Callable[[Join, bool], Loop | Choice]
    ) -> Loop | Choice:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ShellSyntaxError(f"loops are nested more than {DEEPEST} deep")
        self._take()
        step = read(join, begins_line)
        if self._next is not None and not self._at(";", "\n", "&&", "||"):
            what = "a loop" if isinstance(step, Loop) else "`if`"
            raise ShellSyntaxError(f"{what} cannot be redirected or part of a pipeline")
        self._depth -= 1
        return step

    def _body(self, *ends: str) -> tuple[tuple[Step, ...], str]:
        """Return one or more steps, and the reserved word among `ends` that follows them."""
        body = self._list()
        if not body and self._next is not None:
            raise _unexpected(self._next)
        return body, self._expect(*ends)

    def _choice(self, join: Join, begins_line: bool) -> Choice:
        branches: list[tuple[tuple[Step, ...], tuple[Step, ...]]] = []
        otherwise: tuple[Step, ...] = ()
        word = "elif"
        while word == "elif":
            condition, _ = self._body("then")
            body, word = self._body("elif", "else", "fi")
            branches.append((condition, body))
        if word == "else":
            otherwise, _ = self._body("fi")
        return Choice(join, tuple(branches), otherwise, begins_line)

    def _loop(self, join: Join, begins_line: bool) -> Loop:
        name = self._take()
        if name is None:
            raise ShellSyntaxError("no variable after 'for'", incomplete=True)
        if not isinstance(name, Word) or not _NAME.fullmatch(name.text):
            raise _unexpected(name)
        self._newlines()
        self._expect("in")
        values: list[Word] = []
        while isinstance(self._next, Word):
            values.append(self._next)
            self._take()
        if self._next is not None and not self._at(";", "\n"):
            raise _unexpected(self._next)
        self._take()
        self._newlines()
        self._expect("do")
        body, _ = self._body("done")
        return Loop(join, name.text, tuple(values), body, begins_line)

    def _expect(self, *keywords: str) -> str:
        """Skip one of the reserved words `keywords`, and return it."""
        if self._next is None:
            raise ShellSyntaxError(f"'{keywords[-1]}' is missing", incomplete=True)
        if not self._at_keyword(*keywords):
            raise _unexpected(self._next)
        word = self._take()
        assert word is not None
        return word.text


def _keyword(word: Word) -> str:
    """Return `word` if it is an unquoted reserved word, else ""."""
    plain = len(word.text) == word.columns[-1] - word.columns[0]
    return word.text if plain and word.text in _RESERVED else ""


class Continuation:
    """Decides whether the lines of a command so far need another line. Each line is read once."""

    def __init__(self) -> None:
        self._quote = ""
        """The quote that is open."""
        self._joined = False
        """Whether the last token is `&&`, `||` or `|`."""
        self._begins = True
        """Whether the word that is read, or the next one, is at the start of a command."""
        self._word = ""
        """The unquoted text of the word that is read."""
        self._loops = 0
        """Number of loops without their `done`, and of `if` without their `fi`."""

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
                self._begins = False
            elif text == "#" and not in_word:
                end = line.find("\n", at)
                at = len(line) if end < 0 else end
            elif text == "\n" or text.isspace():
                self._end_word()
                in_word = False
                self._begins |= text == "\n"
            elif text in OPERATORS:
                self._end_word()
                in_word = False
                self._begins = text not in (">", ">>")
                self._joined = text in ("&&", "||", "|")
            else:
                self._word += text
                in_word, self._joined = True, False
        self._end_word()
        return bool(self._quote) or self._joined or self._loops > 0

    def _end_word(self) -> None:
        """Count the nesting that the word opens or closes, if it can be a reserved word."""
        if not self._word:
            return
        if self._begins and self._word in _LOOP_ENDS:
            self._loops = max(0, self._loops + _LOOP_ENDS[self._word])
        self._begins = self._begins and self._word in ("if", "do", "then", "elif", "else")
        self._word = ""


_LOOP_ENDS = {"for": 1, "done": -1, "if": 1, "fi": -1}
_QUOTED = {
    "'": re.compile(r"[^']*"),
    '"': re.compile(r'(?:[^"\\]|\\.)*+\\?', re.DOTALL),
}
"""Text up to the end of each kind of quote."""

_PLAIN_PARTS = re.compile(
    r"\\\n|\\.?|['\"#\n]|[ \t\r]+|&&|\|\||[;&|<>]|[^\\'\"#;&|<>\s]+|.", re.DOTALL
)
"""The parts of unquoted text."""


def _unexpected(token: Operator | Word) -> ShellSyntaxError:
    shown = "newline" if token.text == "\n" else f"'{token.text}'"
    why = _WHY.get(token.text, "") if isinstance(token, Operator) else ""
    return ShellSyntaxError(f"{shown} unexpected{why}")


_WHY = {
    "&": ": no command can run in the background",
    "(": ": subshells are not supported",
}
