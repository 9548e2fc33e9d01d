"""The flame graph and the histogram as drawings."""

from __future__ import annotations

from .drawing import Bar, Drawing, Row, Section
from .times import Frame, Histogram

_TONES = ("link", "good", "accent", "strong")

_LEAST = 0.002
"""Share of the whole time below which a frame is left out."""


def flame_drawing(root: Frame, first: int = 0) -> Drawing:
    """Return the flame graph of a tree of calls: callers above, widths are times.

    Rows above the row `first` are left out.
    """
    rows: list[list[Bar]] = []
    whole = max(root.total_ns, 1)

    def add(frame: Frame, start: int) -> None:
        while len(rows) <= frame.depth:
            rows.append([])
        tone = _TONES[sum(frame.name.encode()) % len(_TONES)]
        share = frame.total_ns / whole
        rows[frame.depth].append(
            Bar(start / whole, start / whole + share, "=", tone, f"{frame.name} {share:.1%}")
        )
        for inner in sorted(frame.inner.values(), key=lambda each: each.name):
            if inner.total_ns >= _LEAST * whole:
                add(inner, start)
            start += inner.total_ns

    add(root, 0)
    shown = tuple(Row(f"{depth}", tuple(bars)) for depth, bars in enumerate(rows))[first:]
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
