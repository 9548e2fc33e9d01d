"""The line of a row of the trace: a tone for each kind of field."""

from __future__ import annotations

from dataclasses import replace

from ...core.trace.text.fieldkinds import FieldKind, Fields
from .line import Line, line

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
    """Return `drawn` with a marker's `sign` in its first column; the text to copy stays."""
    spans = [(text, tone) for text, tone in drawn.spans if text]
    if spans:
        text, tone = spans[0]
        spans[0] = (text[1:], tone)
    return replace(drawn, spans=tuple(spans), mark=(sign, "mark"), copy=drawn.copied)
