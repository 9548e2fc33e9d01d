"""Every command of docs/documents.md shows what its row says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dynftrace import arches
from dynftrace.core.memento import Restore
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell
from dynftrace.tui.cli import run

from .support.keystone import needs_keystone

PAGE = Path(__file__).parents[1] / "docs" / "documents.md"

TYPED = re.compile(r"poke \S+ (addiu|call|jal) ")
"""Commands with an instruction to assemble."""


class Row(NamedTuple):
    """A sentence of a document, and the command that shows it."""

    document: str
    number: str
    machine: str
    command: str
    shows: list[str]


def rows() -> list[Row]:
    """Return the rows of all tables, those of one machine together."""
    found = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            document = line.removeprefix("## ")
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0][:1].isdigit():
            number, _, machine, command, shows = (cell.replace(r"\|", "|") for cell in cells)
            found.append(
                Row(document, number, machine, command.strip("`"), re.findall("`([^`]*)`", shows))
            )
    return sorted(found, key=lambda row: row.machine)


def pattern(shown: str) -> str:
    """Return a regex of words on one line with any blanks between them; `…` is any text."""
    words = [".*".join(map(re.escape, word.split("…"))) for word in shown.split()]
    return r"[^\S\n]+".join(words)


@lru_cache(maxsize=1)
def opened(machine: str) -> tuple[Session, Restore]:
    """Return a new machine, such as `mips --nop nop`, and the way back to its start."""
    arch, *options = machine.split()
    fields: dict[str, Any] = {
        key.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for key, value in zip(options[::2], options[1::2], strict=True)
    }
    session = Session.open(arches.load(arch), MachineSpec(**fields))
    return session, session.save()


@lru_cache
def program(command: str) -> str:
    """Return what `dynftrace` writes to stdout."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        run(shlex.split(command)[1:])
    return written.getvalue()


def output(row: Row) -> str:
    """Return what the row's command writes: a shell command's to its machine at its start."""
    if row.command.startswith("dynftrace "):
        return program(row.command)
    session, restart = opened(row.machine)
    restart()
    outcomes = Shell(session).run(row.command)
    return "".join(outcome.output + outcome.error for outcome in outcomes)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[needs_keystone] if TYPED.search(row.command) else [])
        for row in rows()
    ],
    ids=lambda row: f"{row.document}-{row.number}",
)
def test_a_command_shows_the_sentence(row: Row) -> None:
    assert row.shows and all(row.shows)
    whole = rest = output(row)
    for shown in row.shows:
        match = re.search(pattern(shown), rest)
        assert match, f"{shown!r} is not in\n{whole}"
        rest = rest[match.end() :]
