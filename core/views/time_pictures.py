"""The flame graph and the histogram as drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .drawing import Bar, Drawing, Row, Section
from .times import Frame, Histogram

_TONES = ("link", "good", "accent", "strong")

_LEAST = 0.002
"""Share of the whole time below which a frame is left out."""


class FlameGraph:
    """The flame graph of a tree of calls; it can show a part of the tree."""

    def __init__(self, root: Frame) -> None:
        self.root = root

    @staticmethod
    def calls(frame: Frame, whole: int) -> list[Frame]:
        """Return the callees of `frame` as drawn on a scale of `whole` ns, from left to right."""
        inner = sorted(frame.inner.values(), key=lambda each: each.name)
        return [each for each in inner if each.total_ns >= _LEAST * whole]

    def drawing(self, path: Sequence[Frame] = (), top: int = 0) -> Drawing:
        """Return the picture below the frame `path[top]`, with the last frame of `path` chosen.

        `path` has the frames from the root; empty for the whole picture.
        """
        if not path:
            return flame_drawing(self.root)
        base, chosen = path[top], path[-1]
        share = chosen.total_ns / max(self.root.total_ns, 1)
        own = chosen.own_ns / max(self.root.total_ns, 1)
        calls = f", {chosen.calls:,} calls" if chosen.calls else ""
        title = (
            f"{chosen.name}  {chosen.total_ns / 1000:,.3f} us, {share:.1%} (own {own:.1%}){calls}"
        )
        return replace(flame_drawing(base, chosen), title=title)


def flame_drawing(root: Frame, chosen: Frame | None = None) -> Drawing:
    """Return the flame graph of a tree of calls: callers above, widths are times."""
    rows: list[list[Bar]] = []
    whole = max(root.total_ns, 1)

    def add(frame: Frame, start: int) -> None:
        depth = frame.depth - root.depth
        while len(rows) <= depth:
            rows.append([])
        tone = _TONES[sum(frame.name.encode()) % len(_TONES)]
        share = frame.total_ns / whole
        sign = "=" if frame is not chosen else "#"
        tone = tone if frame is not chosen else "mark"
        rows[depth].append(
            Bar(start / whole, start / whole + share, sign, tone, f"{frame.name} {share:.1%}")
        )
        for inner in sorted(frame.inner.values(), key=lambda each: each.name):
            if inner.total_ns >= _LEAST * whole:
                add(inner, start)
            start += inner.total_ns

    add(root, 0)
    shown = tuple(Row(f"{depth}", tuple(bars)) for depth, bars in enumerate(rows))
    title = f"flame graph  {root.total_ns / 1000:,.3f} us without idle tasks"
    return Drawing(title, (Section("", shown),))


def hist_drawing(function: str, found: Histogram) -> Drawing:
    """Return the histogram of a function's durations."""
    buckets = found.buckets()
    most = max(count for _, _, count in buckets)
    rows = tuple(
        Row(
            f"{low / 1000:,.3f}-{high / 1000:,.3f}",
            (Bar(0, count / most, "#", "link"),) if count else (),
            f"{count:,}",
        )
        for low, high, count in buckets
    )
    title = f"durations of {function} in us, {len(found.durations):,} calls"
    return Drawing(title, (Section("", rows),))
