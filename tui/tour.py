"""Tours: a text in steps, each with something to do and a check that it was done.

A tour is a Markdown file. It begins with a TOML table between two lines `+++`: its
`summary`, and the machine it is for (`kernel`, `cpus`, `modules`, `patch`). Its title
is the heading of first order, each heading of second order begins a step. What is
special in a step stands in fenced blocks:

    ```do       commands of the shell that do the step: what "show me" executes
    ```check    what holds once it is done, a line each (see `Check`)
    ```hint     a sentence for who is stuck

A step without a check is one to read. Everything else is shown as it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..core.session import Session

FOLDER = Path(__file__).parent / "tours"
"""The tours that come along."""

SETTINGS = {"summary": str, "kernel": str, "cpus": int, "modules": list, "patch": str}

_BLOCKS = ("do", "check", "hint")
_CHECK = re.compile(r"(?P<command>.+?) (?P<sign>=>|=/>) (?P<pattern>.+)")
_RAN = "ran "


class Said(Protocol):
    """What a command said."""

    @property
    def output(self) -> str: ...

    @property
    def error(self) -> str: ...


Execute = Callable[[str], Said]
"""Executes a command of the shell that changes nothing."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold: `COMMAND => REGEX`, `COMMAND =/> REGEX` or `ran REGEX`.

    The output of a command has a match of the pattern in one of its lines, or none
    (`=/>`); or a command was executed in this step that the pattern matches.
    """

    command: str
    """Empty where commands that were executed are looked at."""
    pattern: re.Pattern[str]
    wanted: bool = True

    def holds(self, ran: Sequence[str], execute: Execute) -> bool:
        """Whether it is so now; `ran` are the commands of this step."""
        if not self.command:
            return any(self.pattern.search(command) for command in ran)
        outcome = execute(self.command)
        lines = [*outcome.output.splitlines(), *outcome.error.splitlines()]
        return any(self.pattern.search(line) for line in lines) == self.wanted


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a tour."""

    title: str
    text: str
    """Markdown, without the special blocks."""
    commands: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    hint: str = ""

    def done(self, ran: Sequence[str], execute: Execute) -> bool:
        """Whether all of its checks hold."""
        return all(check.holds(ran, execute) for check in self.checks)


@dataclass(frozen=True, slots=True)
class Tour:
    """A text in steps, and the machine it is about."""

    name: str
    title: str
    summary: str
    steps: tuple[Step, ...]
    kernel: str = "x86_64"
    cpus: int = 2
    modules: tuple[str, ...] = ()
    patch: str | None = None

    def open(self) -> Session:
        """Its machine. Raises as `Session.open`."""
        from .. import arches
        from ..core.session import MachineSpec, Session

        spec = MachineSpec(modules=self.modules, cpus=self.cpus, patch=self.patch)
        return Session.open(arches.load(self.kernel), spec)


@dataclass(slots=True)
class _Draft:
    """A step while its blocks are read."""

    title: str
    lines: list[str] = field(default_factory=list)
    blocks: dict[str, str] = field(default_factory=dict)


def names() -> list[str]:
    """The tours there are, in the order they are best taken."""
    return [path.stem.partition("-")[2] for path in sorted(FOLDER.glob("[0-9][0-9]-*.md"))]


def load(name: str) -> Tour:
    """The tour called `name`; raises `UsageError`."""
    found = list(FOLDER.glob(f"[0-9][0-9]-{name}.md")) if name in names() else []
    if not found:
        raise UsageError(f"no tour '{name}'; there is: {', '.join(names())}")
    return parse(found[0].read_text(encoding="utf-8"), name, found[0].name)


def parse(source: str, name: str, where: str) -> Tour:
    """Read a tour. Raises `UsageError` with the line of the file `where`."""
    # Here, since a list of commands names the tours' and must not wait for it.
    from markdown_it import MarkdownIt

    settings, text, skipped = _settings(source, where)
    title, drafts = "", list[_Draft]()
    lines = text.splitlines()
    taken = 0
    tokens = MarkdownIt().parse(text)
    for at, token in enumerate(tokens):
        if token.map is None:
            continue
        first, end = token.map
        heading = token.type == "heading_open"
        special = token.type == "fence" and token.info.strip() in _BLOCKS
        if not heading and not special:
            continue
        if drafts:
            drafts[-1].lines += lines[taken:first]
        taken = end
        if heading and token.tag == "h1":
            title = tokens[at + 1].content
        elif heading:
            drafts.append(_Draft(tokens[at + 1].content))
        else:
            line = first + 1 + skipped
            if not drafts:
                raise UsageError(f"{where}:{line}: a block outside of any step")
            if token.info.strip() in drafts[-1].blocks:
                raise UsageError(f"{where}:{line}: a second {token.info.strip()} in one step")
            if token.info.strip() == "check":
                _checks(token.content, f"{where}:{line}")
            drafts[-1].blocks[token.info.strip()] = token.content
    if not title or not drafts:
        raise UsageError(f"{where}: a tour has a title and steps")
    drafts[-1].lines += lines[taken:]
    steps = tuple(_step(draft, where) for draft in drafts)
    return Tour(name, title, steps=steps, **settings)  # type: ignore[arg-type]


def _settings(source: str, where: str) -> tuple[dict[str, object], str, int]:
    """The table at the top, the text behind it, and the lines before that."""
    head, _, rest = source.removeprefix("+++\n").partition("\n+++\n")
    if not source.startswith("+++\n") or not rest:
        raise UsageError(f"{where}:1: a tour begins with a table between two lines +++")
    try:
        table = tomllib.loads(head)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: {error}") from error
    for key, value in table.items():
        if key not in SETTINGS or not isinstance(value, SETTINGS[key]):
            raise UsageError(f"{where}: {key} is no setting of a tour, or not of that type")
    if "summary" not in table:
        raise UsageError(f"{where}: a tour has a summary")
    return (
        {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()},
        rest,
        head.count("\n") + 3,
    )


def _step(draft: _Draft, where: str) -> Step:
    blocks = draft.blocks
    return Step(
        draft.title,
        "\n".join(draft.lines).strip(),
        tuple(line for line in blocks.get("do", "").splitlines() if line.strip()),
        _checks(blocks.get("check", ""), where),
        " ".join(blocks.get("hint", "").split()),
    )


def _checks(text: str, where: str) -> tuple[Check, ...]:
    return tuple(_check(line.strip(), where) for line in text.splitlines() if line.strip())


def _check(line: str, where: str) -> Check:
    try:
        if line.startswith(_RAN):
            return Check("", re.compile(line.removeprefix(_RAN)))
        match = _CHECK.fullmatch(line)
        if match is None:
            raise UsageError(f"{where}: '{line}' is no check")
        if ">" in match["command"]:
            raise UsageError(f"{where}: a check changes nothing: '{match['command']}'")
        return Check(match["command"], re.compile(match["pattern"]), match["sign"] == "=>")
    except re.error as error:
        raise UsageError(f"{where}: '{line}': {error}") from error
