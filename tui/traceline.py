"""Tones for the lines of the trace, as the kernel prints them: told from the text alone."""

from __future__ import annotations

import re

from .spans import Line

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
    return (
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
        return ((text, ""),)
    return (
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
    return (*graph_line(before), (mark + rows, "accent"), (brace + rest, ""))


def signed(line: Line, sign: str) -> Line:
    """`line` with a marker's `sign` in its first column."""
    first, tone = line[0]
    return ((sign, "mark"), (first[1:], tone), *line[1:])
