"""Texts for lists without rows: why they are empty, and which key adds rows.

A line fits the narrowest pane: 33 characters in the function list, 54 in the trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from .view import Status

OPENING = ("opening…",)

NO_FUNCTION = (
    "no function matches the filter",
    "/ edits it, esc in it clears it",
    "insmod adds a module's functions",
)

NO_RECORD = (
    "no function has a record yet",
    "the kernel makes them as it runs",
    "c lets the machine run",
)

NO_SITE = "no call site has a record yet: c lets the machine run"


NO_BOOT = "this kernel has not booted: :call FUNC ARG… calls a function"

NO_WORKLOAD = "this kernel has no workloads: :call FUNC ARG… calls a function"


def no_rows(status: Status, filtered: bool) -> Sequence[str]:
    """Return the text of an empty trace; `filtered` if its filter hides all of its events."""
    if not status.arch:
        return OPENING
    if filtered:
        return ("no event matches the filter", "F edits the filter; an empty one shows all events")
    if status.recorded:
        return ("the file has no events",)
    if status.ftrace_off:
        return (
            "ftrace is off: no function is traced",
            "R reboots the machine, b undoes the last command",
        )
    if not status.tracing_on:
        return ("tracing_on is 0: no event is recorded", ":echo 1 > tracing_on resumes tracing")
    if status.tracer == "nop":
        return (
            "the current tracer is nop: no function is traced",
            "t traces the functions chosen in pane 1, or all",
        )
    if not status.boots:
        return (
            "no event has been recorded yet",
            "this kernel has not booted: nothing runs by itself",
            ":call int_sqrt 144 calls a function, which is traced",
        )
    return (
        "no event has been recorded yet",
        "c lets the machine run, w runs a workload",
        "a traced function records one when it is called",
    )
