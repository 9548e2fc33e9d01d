"""Durations of calls that the graph tracer recorded: the flame graph's tree, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..trace.export.spans import spans_of
from ..trace.export.stacks import IDLE, Stack, stacks_of
from ..trace.text.tracetext import TraceText


@dataclass(slots=True)
class Frame:
    """A function, called by the functions above it, or a task."""

    name: str
    depth: int = 0
    """Number of frames above it."""
    own_ns: int = 0
    """Time without the calls it made."""
    total_ns: int = 0
    calls: int = 0
    inner: dict[str, Frame] = field(default_factory=dict)


def flame(text: TraceText) -> Frame:
    """Return the tree of all calls, in which each task is a frame; idle tasks are left out."""
    root = Frame("all tasks")
    for stack in stacks_of(text):
        if not stack.task.startswith(IDLE):
            _add(root, stack)
    _total(root)
    return root


def _add(root: Frame, stack: Stack) -> None:
    frame = root
    for name in (stack.task, *stack.frames):
        frame = frame.inner.setdefault(name, Frame(name, frame.depth + 1))
    frame.own_ns += stack.own_ns
    frame.calls += stack.calls


def _total(frame: Frame) -> int:
    frame.total_ns = frame.own_ns + sum(map(_total, frame.inner.values()))
    return frame.total_ns


def zoomed(root: Frame, path: str, prefix: str = "") -> Frame | None:
    """Return the tree below the frames whose callers and names end with `path`; None without any.

    `path` has names, callers first, separated by commas. Frames of one name are one frame; a
    recursive call belongs to the outermost one. Names may omit `prefix`, the ABI's prefix of
    names of code.
    """
    wanted = [name.removeprefix(prefix) for name in path.split(",")]
    found: list[Frame] = []

    def visit(frame: Frame, above: list[str]) -> None:
        here = [*above, frame.name.removeprefix(prefix)]
        if here[-len(wanted) :] == wanted:
            found.append(frame)
            return
        for inner in frame.inner.values():
            visit(inner, here)

    visit(root, [])
    return _merged(found, 0) if found else None


def _merged(frames: Sequence[Frame], depth: int) -> Frame:
    """Merge several frames of one name into one."""
    whole = Frame(frames[0].name, depth)
    below: dict[str, list[Frame]] = {}
    for frame in frames:
        whole.own_ns += frame.own_ns
        whole.total_ns += frame.total_ns
        whole.calls += frame.calls
        for inner in frame.inner.values():
            below.setdefault(inner.name, []).append(inner)
    whole.inner = {name: _merged(each, depth + 1) for name, each in below.items()}
    return whole


def largest(root: Frame, share: float) -> list[Frame]:
    """Return the frames that took at least `share` (0 to 1) of the time, callers first.

    Frames with the same caller are in descending order of their time.
    """
    found: list[Frame] = []

    def visit(frame: Frame) -> None:
        found.append(frame)
        for inner in sorted(frame.inner.values(), key=lambda each: (-each.total_ns, each.name)):
            if inner.total_ns >= share * root.total_ns:
                visit(inner)

    visit(root)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Durations of n calls, by powers of two."""

    durations: NDArray[np.int64]
    """The durations in ns, ascending, shape (n,); n is not 0."""

    def buckets(self) -> Sequence[tuple[int, int, int]]:
        """Return (from, to, calls) for each power of two in use; `to` is exclusive, in ns."""
        exponents = [duration.bit_length() for duration in self.durations.tolist()]
        first, last = exponents[0], exponents[-1]
        counts = np.bincount(exponents, minlength=last + 1)[first:].tolist()
        return [
            (1 << exponent >> 1, 1 << exponent, count)
            for exponent, count in enumerate(counts, start=first)
        ]


def histogram(text: TraceText, function: str) -> Histogram | None:
    """Return the durations of the calls of `function` that returned; None without any."""
    prefix = text.context.text_prefix
    names = text.formatter.labels.functions
    wanted = [at for at, name in enumerate(names) if name in (function, prefix + function)]
    spans = spans_of(text.table)
    rows = ~spans.open & np.isin(spans.spans["ip"], wanted)
    if not rows.any():
        return None
    return Histogram(np.sort(spans.spans["end"][rows] - spans.spans["start"][rows]))
