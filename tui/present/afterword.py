"""A few words after a command about its consequence for the user.

The kernel's files say nothing when they are written, and an errno when they refuse. A
beginner needs the next key, and must see when something was lost.
"""

from __future__ import annotations

import re

from ...core.shell.outcome import Loaded, RanWorkload, Rebooted, WroteFile
from .view import Done, Status

_FILTER = "set_ftrace_filter"


_BUG = re.compile(r"ftrace failed to modify \[<[0-9a-f]+>\] ([^:+]+)")


def failure(done: Done) -> str:
    """Return the error of a failed command, in one line if a report has the rest."""
    bug = _BUG.search(done.error)
    if bug is not None:
        return f"ftrace refused to patch {bug[1]}: R reboots, b undoes"
    return done.error or done.output


def afterword(done: Done, before: Status) -> str:
    """Return the words for `done`, or "" for none; `before` is the status before the command."""
    if done.status:
        return _after_failure(done, before)
    for effect in reversed(done.effects):
        match effect:
            case WroteFile("current_tracer", text) if text.strip() != "nop":
                run = "w runs a workload" if before.boots else ":call calls a function"
                return f"{run}; b undoes it"
            case WroteFile("current_tracer") if before.events:
                return "the trace is emptied; b brings it back"
            case WroteFile("trace") if before.events:
                return "the trace is empty; b brings it back"
            case Rebooted():
                return "a fresh machine; b brings the old one back"
            case Loaded(module):
                return f"loaded: / in pane 1 and :mod:{module} list its functions"
            case RanWorkload() if before.tracer == "nop":
                return "no tracer was on: t switches one on"
    return ""


def _after_failure(done: Done, before: Status) -> str:
    if before.ftrace_off and "No such device" in done.error:
        return "ftrace is off: R reboots, b undoes"
    if _FILTER in done.command and "Invalid argument" in done.error:
        return "no such function" + ("" if ">>" in done.command else "; the filter is now empty")
    return ""
