"""Parse a lesson, a Markdown file; errors name the line and the column.

The file begins with a TOML table between two lines `+++`: its `summary`, and its machine
(`SETTINGS`). The heading of level 1 is its title; each heading of level 2 begins a step. The
special blocks are in `BLOCKS`. A comment `<!-- … -->` is not part of the text. docs/lessons.md
explains all of it to a teacher.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ... import arches
from ...core.errors import UsageError
from .tour import DEEDS, Check, Deed, Shows, Step, Tour

if TYPE_CHECKING:
    from markdown_it.token import Token

SETTINGS = {
    **{"summary": str, "kernel": str, "cpus": int, "modules": list},
    **{"patch": str, "nop": str, "own": bool},
}
"""Entries of the table at the top, and their TOML types."""

MOST_CPUS = 8

BLOCKS = ("setup", "pane", "do", "check", "hint")
"""Languages of the special blocks: `setup` before the first step, the others in a step."""

_CHECK = re.compile(r"(?P<command>.+?) (?P<sign>=>|=/>) (?P<pattern>.+)")
_DEED = re.compile(r"(?P<deed>(?:saw|did) \S+)(?: (?P<name>\S+))?")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A file being read, which gives errors their place in it."""

    where: str
    lines: tuple[str, ...]

    def error(self, line: int, reason: str, wrong: str = "", column: int = 1) -> UsageError:
        """Return an error about `line`, counted from 1; the column is that of `wrong`."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        found = text.find(wrong) if wrong else -1
        return UsageError(f"{self.where}:{line}:{found + 1 if found >= 0 else column}: {reason}")


@dataclass(slots=True)
class _Draft:
    """A step that is still being parsed."""

    title: str
    line: int
    lines: list[str] = field(default_factory=list)
    blocks: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """The special blocks by language: the number of the first line inside, and the content."""


def read(path: Path, name: str, commands: Collection[str] | None = None) -> Tour:
    """Read the lesson `path`. Raises `UsageError`; see `parse`."""
    if path.is_char_device() or path.is_block_device():  # some never end
        raise UsageError(f"{path}: a lesson must be a file, not a device")
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: a lesson must be UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    return parse(source, name, str(path), path=path, commands=commands)


def parse(
    source: str,
    name: str,
    where: str,
    *,
    path: Path | None = None,
    commands: Collection[str] | None = None,
) -> Tour:
    """Parse a lesson. `commands` are the known commands of the shell, None to accept any.

    Raises `UsageError`, which begins with the file name `where`, the line and the column.
    """
    # Imported here so that listing the names of tours stays fast.
    from markdown_it import MarkdownIt

    lesson = _Lesson(where, tuple(source.splitlines()))
    settings, skipped = _settings(lesson)
    lines = lesson.lines[skipped:]
    title, drafts = "", list[_Draft]()
    setup: tuple[str, ...] = ()
    taken = 0
    tokens = MarkdownIt().parse("\n".join(lines))
    for at, token in enumerate(tokens):
        if token.map is None or token.level:
            continue
        first, end = token.map
        line = skipped + first + 1
        heading = token.type == "heading_open" and token.tag in ("h1", "h2")
        comment = token.type == "html_block" and token.content.lstrip().startswith("<!--")
        block = _block(lesson, token, line)
        if not heading and not block and not comment:
            continue
        if drafts:
            drafts[-1].lines += lines[taken:first]
        taken = end
        if comment:
            continue
        if heading and token.tag == "h1":
            if title:
                raise lesson.error(line, "a lesson has only one title; steps begin with ##")
            title = tokens[at + 1].content
        elif heading:
            new = tokens[at + 1].content
            if any(draft.title == new for draft in drafts):
                raise lesson.error(line, f"another step is called '{new}' too", new)
            drafts.append(_Draft(new, line))
        elif block == "setup":
            if drafts or setup:
                raise lesson.error(line, "the setup block comes once, before the first step")
            allowed = None if commands is None else set(commands) - {"port"}
            setup = tuple(text for _, text in _commands(lesson, line + 1, token.content, allowed))
        elif not drafts:
            raise lesson.error(line, "this block is before the first step")
        else:
            _add(lesson, drafts[-1], block, line, token.content)
    if not title or not drafts:
        raise lesson.error(max(len(lesson.lines), 1), "a lesson needs a title and a step")
    drafts[-1].lines += lines[taken:]
    steps = tuple(_step(lesson, draft, commands) for draft in drafts)
    return Tour(name, title, steps=steps, setup=setup, path=path, **settings)  # type: ignore[arg-type]


def _block(lesson: _Lesson, token: Token, line: int) -> str:
    """Return the language of a special block, "" for anything else."""
    info = token.info.strip() if token.type == "fence" else ""
    if info and info not in BLOCKS and (meant := get_close_matches(info, BLOCKS, 1, 0.7)):
        raise lesson.error(line, f"unknown block '{info}': is it '{meant[0]}'?", info)
    return info if info in BLOCKS else ""


def _add(lesson: _Lesson, draft: _Draft, block: str, line: int, content: str) -> None:
    """Add a special block to a step; only hints may come several times."""
    if block in draft.blocks and block != "hint":
        raise lesson.error(line, f"this step already has a {block} block")
    if not content.strip():
        raise lesson.error(line, f"this {block} block is empty")
    draft.blocks.setdefault(block, []).append((line + 1, content))


def _settings(lesson: _Lesson) -> tuple[Mapping[str, object], int]:
    """Return the table at the top, and the number of lines up to its end."""
    lines = lesson.lines
    if not lines or lines[0] != "+++" or "+++" not in lines[1:]:
        raise lesson.error(1, "a lesson must begin with a table between two lines +++")
    end = lines.index("+++", 1)
    try:
        table = tomllib.loads("\n".join(lines[1:end]))
    except (ValueError, RecursionError) as error:
        at = _AT.search(str(error))
        line, column = end - 1, len(lines[end - 1]) + 1
        if at is not None and at[1]:
            line, column = int(at[1]), int(at[2])
        raise lesson.error(line + 1, _AT.sub("", str(error)), column=column) from error
    for key, value in table.items():
        line = _line_of(lines[:end], key)
        if key not in SETTINGS:
            raise lesson.error(
                line, f"unknown setting '{key}' (choose from: {', '.join(SETTINGS)})", key
            )
        if type(value) is not SETTINGS[key]:
            kinds = {str: "a text", int: "a number", list: "a list", bool: "true or false"}
            raise lesson.error(line, f"'{key}' must be {kinds[SETTINGS[key]]}", key)
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            raise lesson.error(line, f"'{key}' must be a list of texts", key)
    if "summary" not in table:
        raise lesson.error(1, "the table has no summary")
    if not arches.known(table.get("kernel", arches.DEFAULT)):
        known = ", ".join(arches.names())
        reason = f"unknown kernel '{table['kernel']}' (choose from: {known})"
        raise lesson.error(_line_of(lines[:end], "kernel"), reason, table["kernel"])
    if not 1 <= table.get("cpus", 1) <= MOST_CPUS:
        reason = f"'cpus' must be 1 to {MOST_CPUS}"
        raise lesson.error(_line_of(lines[:end], "cpus"), reason, str(table["cpus"]))
    settings = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return settings, end + 1


def _line_of(lines: tuple[str, ...], key: str) -> int:
    """Return the line that sets `key`, counted from 1."""
    found = (at for at, text in enumerate(lines, 1) if re.match(rf"""\s*["']?{key}\b""", text))
    return next(found, 1)


def _step(lesson: _Lesson, draft: _Draft, commands: Collection[str] | None) -> Step:
    def content(block: str) -> tuple[int, str]:
        return draft.blocks.get(block, [(draft.line, "")])[0]

    checks = tuple(_checks(lesson, *content("check"), commands))
    text = "\n".join(draft.lines).strip()
    before, _, last = text.rpartition("\n\n") if checks else (text, "", "")
    if checks and not last:
        raise lesson.error(draft.line, "a step with a check needs a last paragraph: its task")
    line, pane = content("pane")
    if pane and pane.strip() not in ("1", "2", "3", "4"):
        first, *more = pane.strip().splitlines()
        shown = first[:20] + "…" * (bool(more) or len(first) > 20)
        raise lesson.error(line, f"unknown pane '{shown}' (choose from: 1, 2, 3, 4)")
    return Step(
        draft.title,
        before.strip(),
        last.strip(),
        tuple(text for _, text in _commands(lesson, *content("do"), commands)),
        checks,
        tuple(" ".join(text.split()) for _, text in draft.blocks.get("hint", [])),
        int(pane or 0),
        f"{lesson.where}:{draft.line}:1",
    )


def _numbered(line: int, content: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a block that is not blank, with its number."""
    for number, text in enumerate(content.splitlines(), line):
        if text.strip():
            yield number, text.strip()


def _commands(
    lesson: _Lesson, line: int, content: str, known: Collection[str] | None
) -> Iterator[tuple[int, str]]:
    """Yield each command of a block with its line. Raises `UsageError` for an unknown one."""
    for number, text in _numbered(line, content):
        word = text.split()[0]
        if known is not None and word not in known:
            raise lesson.error(number, f"unknown command '{word}'", word)
        yield number, text


def _checks(
    lesson: _Lesson, line: int, content: str, known: Collection[str] | None
) -> Iterator[Check]:
    for number, text in _numbered(line, content):
        check = _check(lesson, number, text)
        if isinstance(check, Shows):
            list(_commands(lesson, number, check.command, known))
        yield check


def _check(lesson: _Lesson, number: int, line: str) -> Check:
    where = f"{lesson.where}:{number}:1"
    if (match := _DEED.fullmatch(line)) is not None:
        deed, name = match["deed"], match["name"] or ""
        if deed not in DEEDS:
            known = ", ".join(DEEDS)
            raise lesson.error(number, f"unknown check '{deed}' (choose from: {known})", deed)
        effect, attribute = DEEDS[deed]
        if name and not attribute:
            raise lesson.error(number, f"'{deed}' takes no name, but has '{name}'", f" {name}")
        return Deed(effect, attribute, name, where)
    if (match := _CHECK.fullmatch(line)) is None:
        raise lesson.error(
            number,
            f"'{line}' is not a check: write COMMAND => REGEX, COMMAND =/> REGEX, saw … or did …",
            line,
        )
    if match["command"].split()[0] == "port" and match["command"] != "port result":
        raise lesson.error(number, "a check must not execute a file: use 'port result'", "port")
    if ">" in match["command"]:
        reason = f"a check must not change anything: '{match['command']}'"
        raise lesson.error(number, reason, ">")
    try:
        pattern = re.compile(match["pattern"])
    except re.error as error:
        column = lesson.lines[number - 1].rfind(match["pattern"]) + (error.pos or 0) + 1
        reason = f"the pattern '{match['pattern']}' is invalid: {error.msg}"
        raise lesson.error(number, reason, column=column) from error
    except RecursionError as error:
        raise lesson.error(number, "the pattern is nested too deeply") from error
    return Shows(match["command"], pattern, match["sign"] == "=>", where)
