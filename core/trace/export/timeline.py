"""A trace as a timeline, in the JSON of Chrome's Trace Event Format, which Perfetto opens.

The process "tasks" has a thread for each task, with calls as slices and other events as instants.
The process "CPUs" has a thread for each CPU, with the task that ran. There are no events of the
scheduler, so a task runs from its first event to the first one of another task. Its thread "text"
has the phases of changes of text as instants. Times are in microseconds with three decimals, as the
format requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from ...abi import TraceType
from ...ftrace.patch import Performed
from ..text.columntexts import comm_of
from ..text.defaultformat import DefaultFormatter
from ..text.tracetext import TraceText
from .records import event_text
from .spans import spans_of

TASKS, CPUS = 5_000_000, 5_000_001
"""The processes. Perfetto mixes up threads of equal numbers, so no number is used twice.

Pids are smaller than all of these: Linux has at most 2^22.
"""

_IDLE = 6_000_000
"""Thread of CPU 0's idle task; other idle tasks follow it."""

_CPU = 7_000_000
"""Thread of CPU 0; other CPUs follow it."""

_TEXT = 8_000_000
"""Thread of the changes of text."""

_BLOCK = 1 << 14


def timeline(text: TraceText, patches: Sequence[Performed] = ()) -> Iterator[str]:
    """Yield the JSON document in pieces; `patches` are phases of changes of text."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    first = True
    for entry in _entries(text, patches):
        yield ("" if first else ",\n") + json.dumps(entry, separators=(",", ":"))
        first = False
    yield "\n]}\n"


def _entries(text: TraceText, patches: Sequence[Performed]) -> Iterator[dict[str, object]]:
    yield from _names(text)
    functions = text.formatter.labels.functions
    spans = spans_of(text.table)
    closed = spans.spans[~spans.open]
    closed = closed[np.lexsort((-closed["end"], closed["start"]))]
    for start in range(0, len(closed), _BLOCK):
        for ip, pid, cpu, depth, begin, end, _, _ in closed[start : start + _BLOCK].tolist():
            yield {
                "ph": "X",
                "name": functions[ip],
                "cat": "function_graph",
                "ts": begin / 1000,
                "dur": (end - begin) / 1000,
                "pid": TASKS,
                "tid": _thread(pid, cpu),
                "args": {"cpu": cpu, "depth": depth},
            }
    yield from _instants(text)
    yield from _running(text)
    yield from _changes(text, patches)


def _thread(pid: int, cpu: int) -> int:
    return pid or _IDLE + cpu


def _names(text: TraceText) -> Iterator[dict[str, object]]:
    """Yield the names of processes and threads."""
    events = text.table.events
    for process, name in ((TASKS, "tasks"), (CPUS, "CPUs")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    known = text.context.cmdlines
    for pid in np.unique(events["pid"][events["pid"] != 0]).tolist():
        name = f"{comm_of(pid, known)}-{pid}"
        yield _thread_name(TASKS, pid, name)
    for cpu in np.unique(events["cpu"]).tolist():
        yield _thread_name(TASKS, _IDLE + cpu, f"<idle>-{cpu}")
        yield _thread_name(CPUS, _CPU + cpu, f"CPU {cpu}")


def _thread_name(process: int, thread: int, name: str) -> dict[str, object]:
    args = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}


def _instants(text: TraceText) -> Iterator[dict[str, object]]:
    """Yield all events that are neither calls nor returns."""
    table = text.table
    functions = text.formatter.labels.functions
    own = DefaultFormatter(table, text.context)
    kinds = table.events["type"]
    rows = np.flatnonzero((kinds != TraceType.GRAPH_ENT) & (kinds != TraceType.GRAPH_RET))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        events = table.events[block]
        columns = (events[name].tolist() for name in ("ts", "ip", "pid", "cpu", "type"))
        for row, ts, ip, pid, cpu, kind in zip(block.tolist(), *columns, strict=True):
            plain = kind == TraceType.FN
            number = table.events["parent"][row] if plain else 0
            yield {
                "ph": "i",
                "name": functions[ip] if plain else event_text(own, row),
                "cat": "function" if plain else "event",
                "s": "t",
                "ts": ts / 1000,
                "pid": TASKS,
                "tid": _thread(pid, cpu),
                "args": {"cpu": cpu, **({"caller": functions[number]} if plain else {})},
            }


def _running(text: TraceText) -> Iterator[dict[str, object]]:
    """Yield the stretches of each CPU in which one task has all events."""
    known = text.context.cmdlines
    for cpu in np.unique(text.table.events["cpu"]).tolist():
        events = text.table.events[text.table.events["cpu"] == cpu]
        pid, ts = events["pid"], events["ts"].astype(np.int64)
        starts = np.flatnonzero(np.concatenate([[True], pid[1:] != pid[:-1]]))
        ends = np.concatenate([ts[starts[1:]], ts[-1:]])
        each = zip(pid[starts].tolist(), ts[starts].tolist(), ends.tolist(), strict=True)
        for task, begin, end in each:
            yield {
                "ph": "X",
                "name": f"{comm_of(task, known)}-{task}" if task else "<idle>",
                "cat": "cpu",
                "ts": begin / 1000,
                "dur": (end - begin) / 1000,
                "pid": CPUS,
                "tid": _CPU + cpu,
            }


def _changes(text: TraceText, patches: Sequence[Performed]) -> Iterator[dict[str, object]]:
    """Yield the phases of changes of text, beginning shortly before the first event."""
    times = text.table.events["ts"].astype(np.int64)
    if not len(times):
        return
    first, last = int(times.min()), int(times.max())
    # The change that switched the tracer on is before the first event.
    shown = [each for each in patches if each.ns >= first - (last - first) // 10]
    if shown:
        yield _thread_name(CPUS, _TEXT, "text")
    for each in shown:
        yield {
            "ph": "i",
            "name": each.act.value,
            "cat": "patch",
            "s": "t",
            "ts": each.ns / 1000,
            "pid": CPUS,
            "tid": _TEXT,
            "args": {"safe": each.safe},
        }
