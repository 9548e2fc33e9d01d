"""Tours: lessons in steps, each with something to do and a check that it was done.

A tour is a Markdown file. It begins with a TOML table between two lines `+++`: its
`summary`, and its machine (`kernel`, `cpus`, `modules`, `patch`). Its title is the heading
of level 1; each heading of level 2 begins a step. Three kinds of fenced blocks are special:

    ```do       shell commands that do the step: "show me" executes them
    ```check    conditions that hold after the step, one a line
    ```hint     a sentence for a student who is stuck

A line of `check` is one of

    COMMAND => REGEX     a line of the command's output matches
    COMMAND =/> REGEX    no line of the output matches
    saw WHAT [NAME]      the student saw it during this step, by any means
    did WHAT [NAME]      the student did it during this step, by any means

`saw` and `did` compare effects (see `DEEDS`), and not the text of commands: `saw site
schedule` holds after `site schedule`, and after the call-site pane was opened by keys, mouse
or palette. Without a NAME, any name matches. A step without a check is only for reading.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from ... import arches
from ...core.errors import UsageError
from ...core.shell import outcome
from ...core.shell.outcome import Effect

if TYPE_CHECKING:
    from ...core.session.session import Session

FOLDER = Path(__file__).parent / "lessons"
"""Folder of the tours that come with the program."""

SETTINGS = {"summary": str, "kernel": str, "cpus": int, "modules": list, "patch": str}
"""Entries of the table at the top, and their TOML types."""

DEEDS: Mapping[str, tuple[type[Effect], str]] = MappingProxyType(
    {
        "saw site": (outcome.ShowedSite, "function"),
        "saw records": (outcome.ShowedRecords, "function"),
        "saw bits": (outcome.ShowedBits, "symbol"),
        "saw path": (outcome.ShowedPath, ""),
        "saw stubs": (outcome.ShowedStubs, "module"),
        "saw registers": (outcome.ShowedRegisters, ""),
        "saw methods": (outcome.ShowedPatchMethods, ""),
        "saw file": (outcome.ReadFile, "path"),
        "saw refusal": (outcome.NotLoaded, "module"),
        "did write": (outcome.WroteFile, "path"),
        "did run": (outcome.RanWorkload, "name"),
        "did reach": (outcome.Reached, "place"),
        "did step": (outcome.Stepped, ""),
        "did load": (outcome.Loaded, "module"),
        "did unload": (outcome.Unloaded, "module"),
        "did reboot": (outcome.Rebooted, ""),
        "did undo": (outcome.WentBack, ""),
    }
)
"""What `saw` and `did` can check: an effect, and its attribute that NAME must equal."""

_BLOCKS = ("do", "check", "hint")
_CHECK = re.compile(r"(?P<command>.+?) (?P<sign>=>|=/>) (?P<pattern>.+)")
_DEED = re.compile(r"(?P<deed>(?:saw|did) \S+)(?: (?P<name>\S+))?")


class Said(Protocol):
    """The two streams of a command's outcome."""

    @property
    def output(self) -> str: ...

    @property
    def error(self) -> str: ...


Execute = Callable[[str], Said]
"""A function that executes a shell command, here only commands that change nothing."""


@dataclass(frozen=True, slots=True)
class Shows:
    """A check that a line of a command's output matches, or with `wanted` false that none does."""

    command: str
    pattern: re.Pattern[str]
    wanted: bool = True

    def holds(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether the check holds now."""
        said = execute(self.command)
        lines = [*said.output.splitlines(), *said.error.splitlines()]
        return any(self.pattern.search(line) for line in lines) == self.wanted


@dataclass(frozen=True, slots=True)
class Deed:
    """A check that an effect happened during the step; an empty `name` matches any."""

    effect: type[Effect]
    attribute: str
    name: str

    def holds(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether one of the step's `effects` matches."""
        return any(
            isinstance(each, self.effect)
            and (not self.name or getattr(each, self.attribute) == self.name)
            for each in effects
        )


Check = Shows | Deed


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a tour."""

    title: str
    text: str
    """Markdown without the special blocks."""
    commands: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    hint: str = ""

    def done(self, effects: Sequence[Effect], execute: Execute) -> bool:
        """Return whether all checks hold, given the `effects` of the step so far."""
        return all(check.holds(effects, execute) for check in self.checks)


@dataclass(frozen=True, slots=True)
class Tour:
    """A title, steps, and the options of the machine for them."""

    name: str
    title: str
    summary: str
    steps: tuple[Step, ...]
    kernel: str = arches.DEFAULT
    cpus: int = 2
    modules: tuple[str, ...] = ()
    patch: str | None = None

    def open(self) -> Session:
        """Open the tour's machine. Raises what `Session.open` raises."""
        from ...core.session.session import MachineSpec, Session

        spec = MachineSpec(modules=self.modules, cpus=self.cpus, patch=self.patch)
        return Session.open(arches.load(self.kernel), spec)


@dataclass(slots=True)
class _Draft:
    """A step that is still being parsed."""

    title: str
    lines: list[str] = field(default_factory=list)
    blocks: dict[str, str] = field(default_factory=dict)


def names() -> list[str]:
    """Return the names of all tours in the recommended order."""
    return [path.stem.partition("-")[2] for path in sorted(FOLDER.glob("[0-9][0-9]-*.md"))]


def load(name: str) -> Tour:
    """Load the tour `name`. Raises `UsageError` if it does not exist or is invalid."""
    found = list(FOLDER.glob(f"[0-9][0-9]-{name}.md")) if name in names() else []
    if not found:
        raise UsageError(f"unknown tour '{name}' (choose from: {', '.join(names())})")
    return parse(found[0].read_text(encoding="utf-8"), name, found[0].name)


def parse(source: str, name: str, where: str) -> Tour:
    """Parse a tour. Raises `UsageError` with the file name `where`, and the line if known."""
    # Imported here so that listing the names of tours stays fast.
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
                raise UsageError(f"{where}:{line}: this block is before the first step")
            if token.info.strip() in drafts[-1].blocks:
                raise UsageError(
                    f"{where}:{line}: this step already has a {token.info.strip()} block"
                )
            if token.info.strip() == "check":
                _checks(token.content, f"{where}:{line}")
            drafts[-1].blocks[token.info.strip()] = token.content
    if not title or not drafts:
        raise UsageError(f"{where}: a tour needs a title and at least one step")
    drafts[-1].lines += lines[taken:]
    steps = tuple(_step(draft, where) for draft in drafts)
    return Tour(name, title, steps=steps, **settings)  # type: ignore[arg-type]


def _settings(source: str, where: str) -> tuple[dict[str, object], str, int]:
    """Return the table at the top, the text after it, and the number of lines before the text."""
    head, _, rest = source.removeprefix("+++\n").partition("\n+++\n")
    if not source.startswith("+++\n") or not rest:
        raise UsageError(f"{where}:1: a tour must begin with a table between two lines +++")
    try:
        table = tomllib.loads(head)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {error}") from error
    for key, value in table.items():
        if key not in SETTINGS or not isinstance(value, SETTINGS[key]):
            raise UsageError(f"{where}: {key} is not a setting of a tour, or has the wrong type")
    if "summary" not in table:
        raise UsageError(f"{where}: the table has no summary")
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
    if (match := _DEED.fullmatch(line)) is not None:
        return _deed(match["deed"], match["name"] or "", where)
    if (match := _CHECK.fullmatch(line)) is None:
        raise UsageError(f"{where}: '{line}' is not a check")
    if ">" in match["command"]:
        raise UsageError(f"{where}: a check must not change anything: '{match['command']}'")
    try:
        return Shows(match["command"], re.compile(match["pattern"]), match["sign"] == "=>")
    except re.error as error:
        raise UsageError(f"{where}: '{line}': {error}") from error


def _deed(deed: str, name: str, where: str) -> Deed:
    if deed not in DEEDS:
        raise UsageError(f"{where}: unknown check '{deed}' (choose from: {', '.join(DEEDS)})")
    effect, attribute = DEEDS[deed]
    if name and not attribute:
        raise UsageError(f"{where}: '{deed}' takes no name, but has '{name}'")
    return Deed(effect, attribute, name)
