"""The table of a race as plain text: what `race` prints."""

from __future__ import annotations

from textwrap import wrap

from ...session.race import Result, Table

_WIDTH = 80


def race_lines(table: Table) -> list[str]:
    """Return the lines of the table; oopses have numbers, and their reasons are below."""
    by = "by itself" if table.workload is None else f"by workload {table.workload}"
    lines = [f"race of {table.name}, ip {table.ip:x}: a CPU comes there {by}"]
    if not table.rows:
        return [*lines, "no CPU came to any of its instructions while the patch waited"]
    reasons: list[str] = []
    body = [("", "CPU at", "about to run", *table.methods)]
    for row in table.rows:
        results = [_result(each, reasons) for each in row.results]
        body.append((str(row.number), row.place, row.text, *results))
    widths = [max(len(line[at]) for line in body) for at in range(len(body[0]))]
    rest = sum(widths) - widths[2] + 2 * (len(widths) - 1)
    widths[2] = max(min(widths[2], _WIDTH - rest), len(body[0][2]))
    rows = [
        "  ".join(
            f"{_short(text, width):<{width}}" for text, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in body
    ]
    lines.append(rows[0])
    for number, (row, line) in enumerate(zip(table.rows, rows[1:], strict=True)):
        if number == 0 or row.enables != table.rows[number - 1].enables:
            lines.append("the patch enables the site" if row.enables else "it disables the site")
        lines.append(line)
    for number, reason in enumerate(reasons, 1):
        lines += _wrapped(f"({number}) ", reason)
    shown = [row for row in table.rows if any(each.bad for each in row.results)]
    shown = shown or [row for row in table.rows if row.inside][:1] or [*table.rows[:1]]
    lines.append("to go there, before the patch:")
    for row in shown:
        number = next((at for at, each in enumerate(row.results) if each.bad), 0)
        lines += _wrapped(f"{row.number:>2}  ", table.commands(row, table.methods[number]))
    return lines


def _result(result: Result, reasons: list[str]) -> str:
    """Return a cell of the table; `reasons` collects the numbered reasons of oopses."""
    if not result.reason:
        return result.word
    if result.reason not in reasons:
        reasons.append(result.reason)
    return f"{result.word} ({reasons.index(result.reason) + 1})"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(label: str, text: str) -> list[str]:
    return wrap(
        text,
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_on_hyphens=False,
    )
