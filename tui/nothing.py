"""What stands where rows are missing: why there are none, and how some would come.

A line has 54 characters at most, to fit the smallest terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from .view import Status

BOOTING = ("booting…",)

NO_FUNCTION = (
    "no function fits the filter",
    "/ changes it, esc there clears it",
    "modules bring theirs: insmod",
)

NO_RECORD = (
    "no function has a record yet",
    "ftraced finds call sites as they run",
    "c lets the machine run",
)


def no_rows(status: Status, filtered: bool) -> Sequence[str]:
    """What an empty trace says; `filtered` when there are events, but none fits the filter."""
    if not status.arch:
        return BOOTING
    if filtered:
        return ("no row fits the filter", "F changes it; an empty one shows all rows")
    if status.ftrace_off:
        return (
            "ftrace is off: it traces no function",
            "R boots the machine again, b undoes the last command",
        )
    if not status.tracing_on:
        return ("tracing_on is 0: no event is written", ":echo 1 > tracing_on goes on")
    if status.tracer == "nop":
        return (
            "the tracer is nop: no function is traced",
            "t traces what space chose in Functions (1), else all",
        )
    return (
        "no event was written yet",
        "c lets the machine run, w runs a workload",
        "a chosen function writes one when something calls it",
    )
