"""The table of a race as plain text: what `race` prints."""

from __future__ import annotations

from textwrap import wrap

from ...session.race import Fate, Row, Table

_WIDTH = 80


def race_lines(table: Table) -> list[str]:
    """Return the lines of the table; oopses have numbers, and their reasons are below."""
    by = "by itself" if table.workload is None else f"by workload {table.workload}"
    lines = [f"race of {table.name}, ip {table.ip:x}: a CPU comes there {by}"]
    if not table.rows:
        return [*lines, "no CPU came to any of its instructions while the patch waited"]
    reasons: list[str] = []
    body = [("", "patch", "CPU at", "about to run", *table.methods)]
    for row in table.rows:
        results = []
        for result in row.results:
            text = result.fate.value
            if result.fate is Fate.LOST:
                text = f"lost {result.detail}"
            elif result.detail:
                if result.detail not in reasons:
                    reasons.append(result.detail)
                text += f" ({reasons.index(result.detail) + 1})"
            results.append(text)
        direction = "enables" if row.enables else "disables"
        body.append((str(row.number), direction, place(row), row.text, *results))
    widths = [max(len(line[at]) for line in body) for at in range(len(body[0]))]
    widths[3] = min(widths[3], 28)
    for line in body:
        cells = [f"{_short(text, width):<{width}}" for text, width in zip(line, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    for number, reason in enumerate(reasons, 1):
        lines += _wrapped(f"({number}) ", reason)
    shown = next((row for row in table.rows if _bad(row)), None)
    row = shown or next((row for row in table.rows if row.inside), table.rows[0])
    number = next((at for at, each in enumerate(row.results) if each.fate is not Fate.FINE), 0)
    lines.append(f"to stand at {row.number} in front of the patch:")
    lines += _wrapped("    ", table.commands(row, table.methods[number]))
    return lines


def place(row: Row) -> str:
    """Return where a CPU is, relative to the site."""
    return f"site{row.offset:+d}" + (" inside" if row.inside else "")


def _bad(row: Row) -> bool:
    return any(each.fate is not Fate.FINE for each in row.results)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(label: str, text: str) -> list[str]:
    return wrap(
        text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )
