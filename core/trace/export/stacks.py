"""Where the time went: calls folded by their callers, for flame graphs.

Formats: folded stacks (one line for each chain of calls: its frames from the outermost inwards,
separated by `;`, a blank, and its own ns), and the JSON of speedscope (file format 0.0.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...abi import TraceType
from ..text.columntexts import comm_of
from ..text.tracetext import TraceText
from .spans import Spans, spans_of

IDLE = "<idle>"
"""Name of the idle tasks."""

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A chain of calls of one task: names from the outermost inwards, and the last one's own ns."""

    task: str
    frames: tuple[str, ...]
    own_ns: int
    calls: int


def stacks_of(text: TraceText) -> list[Stack]:
    """Return every chain of calls in a trace, sorted by task and names."""
    spans = spans_of(text.table)
    names = task_names(text, spans)
    functions = text.formatter.labels.functions
    own = np.zeros(len(spans.paths), np.int64)
    np.add.at(own, spans.spans["path"], spans.own_ns())
    calls = np.bincount(spans.spans["path"][~spans.open], minlength=len(spans.paths))
    chains: list[tuple[str, ...]] = []
    for path in spans.paths.tolist():
        caller, ip = path[0], path[1]
        chains.append((*(chains[caller] if caller >= 0 else ()), functions[ip]))
    # Two paths can have the same names, because one may lack its outer callers.
    found: dict[tuple[str, tuple[str, ...]], Stack] = {}
    for path in np.flatnonzero(calls).tolist():
        key = names[path], chains[path]
        ns, count = int(own[path]), int(calls[path])
        if (same := found.get(key)) is not None:
            ns, count = ns + same.own_ns, count + same.calls
        found[key] = Stack(*key, ns, count)
    return [found[key] for key in sorted(found)]


def task_names(text: TraceText, spans: Spans) -> list[str]:
    """Return `comm-pid` for each path; idle tasks are `<idle>-CPU`, since all have pid 0."""
    known = text.context.cmdlines
    return [
        f"{IDLE}-{cpu}" if pid == 0 else f"{comm_of(pid, known)}-{pid}"
        for pid, cpu in zip(spans.paths["pid"].tolist(), spans.paths["cpu"].tolist(), strict=True)
    ]


def has_calls(text: TraceText) -> bool:
    """Return whether any call has returned while the graph tracer recorded it."""
    return bool((text.table.events["type"] == TraceType.GRAPH_RET).any())


def folded(text: TraceText) -> Iterator[str]:
    """Yield the lines of folded stacks."""
    for stack in stacks_of(text):
        frames = (frame.replace(";", ":") for frame in (stack.task, *stack.frames))
        yield f"{';'.join(frames)} {stack.own_ns}\n"


def speedscope(text: TraceText, title: str) -> Iterator[str]:
    """Yield a JSON document with one profile for each task, weighted in ns."""
    stacks = stacks_of(text)
    names = sorted({frame for stack in stacks for frame in stack.frames})
    number = {name: at for at, name in enumerate(names)}
    tasks: dict[str, list[Stack]] = {}
    for stack in stacks:
        tasks.setdefault(stack.task, []).append(stack)
    document = {
        "$schema": SPEEDSCOPE,
        "exporter": "dynftrace",
        "name": title,
        "shared": {"frames": [{"name": name} for name in names]},
        "profiles": [_profile(task, each, number) for task, each in tasks.items()],
    }
    yield json.dumps(document, separators=(",", ":")) + "\n"


def _profile(task: str, stacks: Sequence[Stack], number: dict[str, int]) -> dict[str, object]:
    return {
        "type": "sampled",
        "name": task,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(stack.own_ns for stack in stacks),
        "samples": [[number[frame] for frame in stack.frames] for stack in stacks],
        "weights": [stack.own_ns for stack in stacks],
    }
