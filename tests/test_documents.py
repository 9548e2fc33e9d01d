"""Every command of docs/documents.md shows what its row says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from dynftrace.tui.cli import run

PAGE = Path(__file__).parents[1] / "docs" / "documents.md"


class Row(NamedTuple):
    """A sentence of a document, and the command that shows it."""

    document: str
    number: str
    machine: str
    command: str
    shows: list[str]


def rows() -> list[Row]:
    """Return the rows of all tables, in the order of the page."""
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
    return found


def pattern(shown: str) -> str:
    """Return a regex of words on one line with any blanks between them; `…` is any text."""
    words = [".*".join(map(re.escape, word.split("…"))) for word in shown.split()]
    return r"[^\S\n]+".join(words)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.document}-{row.number}")
def test_a_command_shows_the_sentence(row: Row) -> None:
    assert row.shows and all(row.shows)
    if row.command.startswith("dynftrace "):
        arguments = shlex.split(row.command)[1:]
    else:
        arguments = ["sh", "--arch", *row.machine.split(), "-c", row.command]
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        run(arguments)
    rest = output = written.getvalue()
    for shown in row.shows:
        match = re.search(pattern(shown), rest)
        assert match, f"{shown!r} is not in\n{output}"
        rest = rest[match.end() :]
