"""Words of a `RowFilter` that match events of a trace, offered for completion."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...distinct import distinct
from ..buffer.details import EVENT, SYSCALL
from ..text.columntexts import comm_of
from ..text.tracetext import TraceText


def filter_words(text: TraceText, event: int | None) -> list[str]:
    """Return each word once: function, task and CPU of `event` first, then all, sorted."""
    words = list(_of_event(text, event)) if event is not None else []
    events, names = text.table.events, text.formatter.labels.functions
    there = np.zeros(len(names), np.bool_)
    there[events["ip"]] = True
    functions = {names[at] for at in np.flatnonzero(there).tolist()}
    calls = distinct(text.table.details.calls["id"]).tolist()
    functions |= {
        text.context.syscalls[id].syscall.name for id in calls if id in text.context.syscalls
    }
    types = distinct(text.table.details.records.ids).tolist()
    functions |= {text.context.events[id].name for id in types if id in text.context.events}
    pids = distinct(events["pid"]).tolist()
    tasks = {word for pid in pids for word in (_task(text, pid), f"pid:{pid}") if pid >= 0}
    words += sorted(f"func:{_literal(name)}" for name in functions if name)
    words += sorted(tasks)
    words += [f"cpu:{cpu}" for cpu in np.flatnonzero(np.bincount(events["cpu"])).tolist()]
    return list(dict.fromkeys(words))


def _of_event(text: TraceText, number: int) -> Iterator[str]:
    event = text.table.events[number]
    name = text.formatter.labels.functions[event["ip"]]
    if event["type"] == SYSCALL:
        known = text.context.syscalls.get(int(text.table.details.calls["id"][event["parent"]]))
        name = "" if known is None else known.syscall.name
    if event["type"] == EVENT:
        found = text.context.events.get(int(text.table.details.records.ids[event["parent"]]))
        name = "" if found is None else found.name
    if name:
        yield f"func:{_literal(name)}"
    if event["pid"] >= 0:
        yield _task(text, int(event["pid"]))
    yield f"cpu:{event['cpu']}"


def _task(text: TraceText, pid: int) -> str:
    """Return the word for a task: by pid if its name is unknown or reads as a number."""
    comm = comm_of(pid, text.context.cmdlines)
    if comm == "<...>" or not comm or set(comm) <= set("0123456789,-"):
        return f"pid:{pid}"
    return f"task:{_literal(comm)}"


def _literal(name: str) -> str:
    """Return a glob that matches `name` and is one word."""
    escaped = "".join(f"\\{char}" if char in "\\*?[" else char for char in name)
    return "".join("?" if char.isspace() or char == "\0" else char for char in escaped)
