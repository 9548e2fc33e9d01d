"""The line of a row of the trace: a tone for each column."""

from __future__ import annotations

from dataclasses import replace

from ...core.trace.text.columns import Column, Fields, joined
from .line import Line, line

_TONES = {
    Column.TASK: "",
    Column.CPU: "dim",
    Column.FLAGS: "dim",
    Column.TIME: "accent",
    Column.OVERHEAD: "accent",
    Column.DURATION: "dim",
    Column.FUNCTION: "strong",
    Column.CALLER: "dim",
    Column.FOLD: "accent",
    Column.TEXT: "",
}


def event_line(fields: Fields) -> Line:
    """Return the line of a row with these fields."""
    return line(*((text, _TONES[column]) for column, text in fields))


_TASK = 15
"""Cells of a task in a narrow pane: enough for most names; a longer one takes more."""

_TIME = 10
"""Cells of a time in a narrow pane."""


def squeezed_title(titles: Fields) -> str:
    """Return the line of `titles`, for rows of `squeezed_line`."""
    of = {column: text.removeprefix("#").strip() for column, text in titles}
    task, time = f"{of[Column.TASK]:>{_TASK - 1}}", f"{of[Column.TIME]:>{_TIME - 1}}"
    return f"#{task} {of[Column.CPU]}  {of[Column.FLAGS]}  {time}  {of[Column.FUNCTION]}"


def squeezed_line(fields: Fields) -> Line:
    """Return the line of a row without the blanks that align columns; its copy has them."""
    texts = dict(fields)
    out: list[tuple[Column, str]] = []
    for column, text in fields:
        if column is Column.TASK and Column.TIME in texts:
            text = f"{text.strip():>{_TASK}} "
        elif column is Column.TIME:
            text = f"{text.strip():>{_TIME}} "
        out.append((column, text))
    return replace(event_line(tuple(out)), copy=joined(fields).strip())


def signed(drawn: Line, sign: str) -> Line:
    """Return `drawn` with a marker's `sign` in its first column; the text to copy stays."""
    spans = [(text, tone) for text, tone in drawn.spans if text]
    if spans:
        text, tone = spans[0]
        spans[0] = (text[1:], tone)
    return replace(drawn, spans=tuple(spans), mark=(sign, "mark"), copy=drawn.copied)
