"""The words of a `RowFilter` that a trace has events for: what can be typed next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .details import SYSCALL
from .tracefields import comm_of

if TYPE_CHECKING:
    from .tracetext import TraceText


def filter_words(text: TraceText, row: int | None) -> list[str]:
    """Those of `row` first: its function, task and CPU; then all, sorted, each once."""
    words = list(_of_row(text, row)) if row is not None else []
    events = text.table.events
    there = np.zeros(len(text.functions), np.bool_)
    there[events["ip"]] = True
    functions = {text.functions[at] for at in np.flatnonzero(there).tolist()}
    calls = np.unique(text.table.details.calls["id"]).tolist()
    functions |= {
        text.context.syscalls[id].syscall.name for id in calls if id in text.context.syscalls
    }
    pids = np.unique(events["pid"]).tolist()
    tasks = {word for pid in pids for word in (_task(text, pid), f"pid:{pid}") if pid >= 0}
    words += sorted(f"func:{_literal(name)}" for name in functions if name)
    words += sorted(tasks)
    words += [f"cpu:{cpu}" for cpu in np.flatnonzero(np.bincount(events["cpu"])).tolist()]
    return list(dict.fromkeys(words))


def _of_row(text: TraceText, row: int) -> Iterator[str]:
    event = text.table.events[text.event_of(row)]
    name = text.functions[event["ip"]]
    if event["type"] == SYSCALL:
        known = text.context.syscalls.get(int(text.table.details.calls["id"][event["parent"]]))
        name = "" if known is None else known.syscall.name
    if name:
        yield f"func:{_literal(name)}"
    if event["pid"] >= 0:
        yield _task(text, int(event["pid"]))
    yield f"cpu:{event['cpu']}"


def _task(text: TraceText, pid: int) -> str:
    """By its name; by its number where the name is not known, or is a number too."""
    comm = comm_of(pid, text.context.cmdlines)
    if comm == "<...>" or not comm or set(comm) <= set("0123456789,-"):
        return f"pid:{pid}"
    return f"task:{_literal(comm)}"


def _literal(name: str) -> str:
    """A glob that matches `name`, as one word."""
    escaped = "".join(f"\\{char}" if char in "\\*?[" else char for char in name)
    return "".join("?" if char.isspace() or char == "\0" else char for char in escaped)
