"""The formats of an exported trace, by name and by the end of a file's name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import DynftraceError, UsageError
from ...ftrace.patch import Performed
from ..text.tracetext import TraceText
from . import records, report, stacks, timeline

SUFFIXES = {
    "perfetto": ".json",
    "folded": ".folded",
    "speedscope": ".speedscope.json",
    "csv": ".csv",
    "jsonl": ".jsonl",
    "text": ".txt",
    "report": ".report.txt",
    "trace.dat": ".dat",
}
"""Suffixes of file names, by format."""


def format_of(name: str) -> str:
    """Return the format for the suffix of a file's name. Raises `UsageError`."""
    for kind, suffix in sorted(SUFFIXES.items(), key=lambda each: -len(each[1])):
        if name.endswith(suffix):
            return kind
    *endings, last = SUFFIXES.values()
    known = f"{', '.join(endings)} or {last}"
    raise UsageError(f"unknown format: {name} must end in {known}")


NOTHING = "nothing was traced: switch a tracer or an event on first"
"""The error of an export without events."""

TRACE_DAT = "trace.dat"
"""The only format that is made from the buffers' pages instead of decoded events."""


def exported(
    text: TraceText, kind: str, name: str, patches: Sequence[Performed] = ()
) -> Iterable[str]:
    """Return the pieces of a file with the trace in the format `kind`; `name` is for titles.

    A timeline also shows `patches`, the phases of changes of text.
    Raises `DynftraceError` for a trace without events, or without what the format needs.
    """
    if not len(text.table):
        raise DynftraceError(NOTHING)
    if kind in ("folded", "speedscope") and not stacks.has_calls(text):
        raise DynftraceError(f"{kind} needs calls with times: trace with function_graph first")
    match kind:
        case "perfetto":
            return timeline.timeline(text, patches)
        case "folded":
            return stacks.folded(text)
        case "speedscope":
            return stacks.speedscope(text, f"{name} (dynftrace)")
        case "csv":
            return records.comma_separated(text)
        case "jsonl":
            return records.json_lines(text)
        case "text":
            return text.file()
        case "report":
            return report.report(text)
        case _:
            raise UsageError(f"{kind} is not made from decoded events")
