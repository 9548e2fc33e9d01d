"""The lines of the race screen: the table of a race, and the words about one of its cells."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from ...core.views.cells import cells
from .line import Line, Span, fit, line

if TYPE_CHECKING:
    from ...core.session.race import Row, Table

Cell = tuple[int, int]
"""A row of the table and a method, both from 0."""

_COLUMNS = ("", "makes", "CPU at", "about to run")

_LEAST = 8
"""Minimum cells of an instruction."""


def head_rows(table: Table, width: int) -> tuple[Line, ...]:
    """Return the lines about the table's subject."""
    by = "by itself" if table.workload is None else f"by workload {table.workload}"
    rest = f"   ip {table.ip:x}, reached {by}"
    room = max(width - cells(table.name) - 9, 0)
    return (
        line((" race of ", ""), (table.name, "link"), (fit(rest, room).rstrip(), "dim")),
        line(""),
    )


def table_rows(
    table: Table, width: int, chosen: Cell, here: Cell | None
) -> tuple[Line, tuple[Line, ...]]:
    """Return the names of the columns, and one line for each row of the table.

    The cell that is `chosen` is in brackets; `▶` is before the row of the visited cell, `here`.
    """
    rows = [(str(each.number), _makes(each), each.place, each.text) for each in table.rows]
    fates = [[each.word for each in row.results] for row in table.rows]
    sizes = [max(map(cells, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    methods = [max(map(cells, column)) for column in zip(table.methods, *fates, strict=True)]
    rest = 2 + sum(sizes[:3]) + 2 * len(sizes) + sum(methods) + 2 * len(methods)
    sizes[3] = max(min(sizes[3], width - rest), _LEAST)
    head = [(f"{fit(text, size)}  ", "dim") for text, size in zip(_COLUMNS, sizes, strict=True)]
    for at, (name, size) in enumerate(zip(table.methods, methods, strict=True)):
        head.append(_cell(name, size, False, "accent" if at == chosen[1] else "dim"))
    lines = []
    for number, (row, words) in enumerate(zip(table.rows, rows, strict=True)):
        spans = [(f"{fit(text, size)}  ", "") for text, size in zip(words, sizes, strict=True)]
        for at, (result, size) in enumerate(zip(row.results, methods, strict=True)):
            tone = "bad" if result.bad else "good" if result.reached else "dim"
            spans.append(_cell(result.word, size, (number, at) == chosen, tone))
        visited = here is not None and here[0] == number
        mark = ("▶ ", "accent") if visited else ("  ", "")
        lines.append(line(*spans, at=row.address, mark=mark))
    return line("  ", *head), tuple(lines)


def foot_rows(table: Table, width: int, chosen: Cell, here: Cell | None) -> tuple[Line, ...]:
    """Return the lines about the cell that is `chosen`."""
    row, method = table.rows[chosen[0]], table.methods[chosen[1]]
    result, room = row.results[chosen[1]], max(width - 2, 10)
    what = "enables" if row.enables else "disables"
    where = f"at site{row.offset:+d}" + (", inside it," if row.inside else "")
    said = f"{row.number}. A CPU {where} is about to run {row.text} when {method} {what} the site."
    tone = "bad" if result.bad else "good" if result.reached else "dim"
    found = [line(("─" * max(width, 1), "dim"))]
    found += [line(" ", (text, "strong")) for text in wrap(said, room)]
    end = _ENDS[result.fate.name].format(result.detail)
    found += [line(" ", (text, tone)) for text in wrap(end, room)]
    if here == chosen:
        found.append(line((" ▶ You are there; b returns.", "accent")))
    elif here is not None:
        text = f"You are in row {here[0] + 1}; b returns, enter goes to this row instead."
        found += [line((f" {each}", "accent")) for each in wrap(text, room)]
    else:
        found.append(line(""))
    if result.reached:
        words = wrap(table.commands(row, method), room, break_on_hyphens=False)
        found += [line(" ", (text, "dim")) for text in words]
    return tuple(found)


_ENDS = {
    "FINE": "The CPU continues as before.",
    "LOST": "The CPU is lost: {} is wrong, and it oopses.",
    "OOPS": "The CPU oopses: {}",
    "HANG": "The CPU hangs.",
    "STALE": "The CPU executes the old text.",
    "EVENT_LOST": "The CPU executes the new text, but its call is not recorded.",
    "UNREACHED": "No CPU reaches this position.",
}
"""Sentences about the end of a race, by the name of the CPU's fate."""


def _makes(row: Row) -> str:
    return "call" if row.enables else "nop"


def _cell(text: str, size: int, chosen: bool, tone: str) -> Span:
    filled = fit(text, size)
    return (f"[{text}]{filled[len(text) :]}" if chosen else f" {filled} "), tone
