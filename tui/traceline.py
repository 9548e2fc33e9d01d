"""Tones for the lines of the trace, as the kernel prints them: told from the text alone."""

from __future__ import annotations

import re
from dataclasses import replace

from .spans import Line, line

_EVENT = re.compile(
    r"(?P<task>.{16,}?-\S+ +)(?P<cpu>\[\d+\] )(?P<flags>\S{5} )?"
    r"(?P<time> *\d+(?:\.\d+)?: )(?P<function>\S+)(?P<parent> (?:<-|\().*)?"
)
_GRAPH = re.compile(
    r"(?P<head>(?:[ \d]+\.\d{6} \|  )?(?: +\d+\) )?(?:\s*\S+-\d+\s+\| )?)"
    r"(?P<mark>[ $@*#!+])(?P<duration> [ \d.us]{12}\|  )"
    r"(?P<indent> *)(?P<function>[^\s(){}/]+)?(?P<rest>.*)"
)


def event_line(text: str) -> Line:
    """Tones for a line of the trace; what does not look like an event stays plain."""
    match = _EVENT.fullmatch(text)
    if match is None:
        return graph_line(text)
    return line(
        (match["task"], ""),
        (match["cpu"], "dim"),
        (match["flags"] or "", "dim"),
        (match["time"], "accent"),
        (match["function"], "strong"),
        (match["parent"] or "", "dim"),
    )


def graph_line(text: str) -> Line:
    """Tones for a line of the function graph, where the mark of a long duration stands out."""
    match = _GRAPH.fullmatch(text)
    if match is None:
        return line(text)
    return line(
        (match["head"], "dim"),
        (match["mark"], "accent"),
        (match["duration"], "dim"),
        (match["indent"], ""),
        (match["function"] or "", "strong"),
        (match["rest"], ""),
    )


def folded_line(text: str) -> Line:
    """Tones for the line of a folded call: what stands for its rows is no text of the kernel."""
    before, mark, after = text.partition("…")
    if not mark:
        return graph_line(text)
    rows, brace, rest = after.partition(" }")
    return line(*graph_line(before), (mark + rows, "accent"), (brace + rest, ""))


def signed(row: Line, sign: str) -> Line:
    """Return `row` with a marker's `sign` in its first column; copying gives what it gave."""
    (first, tone), *rest = row.spans
    spans = ((first[1:], tone), *rest)
    return replace(row, spans=spans, mark=(sign, "mark"), copy=row.copied)
