"""A few words after a command about its consequence for the user.

The kernel's files say nothing when they are written, and an errno when they refuse. A
beginner needs the next key, and must see when something was lost.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ...core.shell.outcome import (
    Effect,
    Loaded,
    NotPatched,
    NotWritten,
    RanWorkload,
    Rebooted,
    WroteFile,
)
from .view import Done, Status


def failure(done: Done) -> str:
    """Return the error of a failed command, in one line if a report has the rest."""
    for effect in done.effects:
        if isinstance(effect, NotPatched):
            return f"ftrace refused to patch {effect.function}: R reboots, b undoes"
    return done.error or done.output


def afterword(done: Done, before: Status) -> str:
    """Return the words for `done`, or "" for none; `before` is the status before the command."""
    for number, effect in reversed([*enumerate(done.effects)]):
        match effect:
            case NotWritten(errno=errno.ENODEV) if before.ftrace_off:
                return "ftrace is off: R reboots, b undoes"
            case NotWritten("set_ftrace_filter", errno.EINVAL, emptied):
                return "no such function" + ("; the filter is now empty" if emptied else "")
            case _ if done.status:
                continue
            case WroteFile("current_tracer", text) if text.strip() != "nop":
                if any(isinstance(later, RanWorkload) for later in done.effects[number:]):
                    continue
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
            case RanWorkload() if _tracer(done.effects[:number], before) == "nop":
                return "no tracer was on: t switches one on"
    return ""


def _tracer(effects: Sequence[Effect], before: Status) -> str:
    """Return the current tracer after `effects`."""
    for effect in reversed(effects):
        match effect:
            case WroteFile("current_tracer", text):
                return text.strip()
    return before.tracer
