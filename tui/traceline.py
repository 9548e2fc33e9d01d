"""Draws a row of the trace: a tone for each kind of field."""

from __future__ import annotations

from ..core.trace.rowfields import FieldKind, Fields
from .spans import Line, Span, line

_TONES = {
    FieldKind.TASK: "",
    FieldKind.CPU: "dim",
    FieldKind.FLAGS: "dim",
    FieldKind.TIME: "accent",
    FieldKind.OVERHEAD: "accent",
    FieldKind.DURATION: "dim",
    FieldKind.FUNCTION: "strong",
    FieldKind.CALLER: "dim",
    FieldKind.FOLD: "accent",
    FieldKind.TEXT: "",
}


def event_line(fields: Fields) -> Line:
    """Return the line of a row with these fields."""
    return line(*((text, _TONES[kind]) for kind, text in fields))


def signed(drawn: Line, sign: str) -> Line:
    """Return `drawn` with a marker's `sign` in its first column."""
    spans: list[Span] = []
    for text, tone in drawn:
        if not spans and text:
            spans = [(sign, "mark"), (text[1:], tone)]
        elif spans:
            spans.append((text, tone))
    return line(*spans or [(sign, "mark")])
