"""A patch under way as plain text: what `patch` prints, in 80 columns and without colour.

The site's bytes in brackets are those that a phase changes. `>` marks the phase that comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ...ftrace.patch import Timing
from ...views.cells import cells, padded
from ...views.patching import CpuLane, PatchView, PhaseRow

_WIDTH = 80

HELD = "the CPUs are held: none can run before the next phase"
AT_ONCE = "the host writes between two instructions, in no virtual time ({})"
FREE = "between two phases the CPUs run when you let the machine run"


def patch_lines(view: PatchView) -> list[str]:
    """Return the lines of a patch under way."""
    head = f"phase {view.next.number} of {len(view.rows)} by {view.method} comes next"
    lines = [head, f"{view.name}  ip {view.ip:x}"]
    lines += strip_lines(view)
    lines += lane_lines(view)
    lines += wrapped("next: ", view.next.title + ".")
    lines += wrapped("      " if view.next.safe else "unsafe: ", view.next.why)
    for lane in view.lanes:
        if lane.then:
            lines += wrapped("unsafe: ", lost(lane))
    lines.append(HELD if view.held else FREE)
    if view.obstacle is not None:
        lines += wrapped("at once: ", AT_ONCE.format(view.obstacle))
    return lines


def timing_line(last: Timing) -> str:
    """Return the line about the duration of the last change."""
    places = f"{last.places} place{'' if last.places == 1 else 's'}"
    return (
        f"last change: {places} by {last.method}, {last.ended - last.asked:,} ns; "
        f"CPU {last.cpu} wrote {last.first - last.asked:,} ns after it was asked"
    )


def strip(data: bytes, changed: Sequence[bool]) -> str:
    """Return bytes in hexadecimal, with the `changed` ones in brackets."""
    text = ""
    for at, byte in enumerate(data):
        before = at > 0 and changed[at - 1]
        here = changed[at]
        text += "[" if here and not before else "]" if before and not here else " "
        text += f"{byte:02x}"
    return text + ("]" if data and changed[-1] else " ")


def strip_lines(view: PatchView) -> list[str]:
    """Return the site's bytes before the patch and after each phase that writes it."""
    none = (False,) * len(view.before)
    rows: list[tuple[str, str, str, str]] = [
        (" ", "before", strip(view.before, none), view.before_text)
    ]
    for row in view.rows:
        if row.writes or (not row.done and row is view.next):
            mark = ">" if row is view.next else " "
            rows.append((mark, number(row), strip(row.data, row.changed), row.text))
    width = max(cells(label) for _, label, _, _ in rows)
    return [
        f"{mark} {padded(label, width)}  {data}  {text}".rstrip()
        for mark, label, data, text in rows
    ]


def number(row: PhaseRow) -> str:
    """Return the label of a phase."""
    return f"phase {row.number}{' done' if row.done else ''}"


def lane_lines(view: PatchView) -> list[str]:
    """Return one line for each CPU."""
    return [lane_line(lane) for lane in view.lanes]


def lane_line(lane: CpuLane) -> str:
    """Return the line about a CPU: where it is and what it would run at the site."""
    fresh = "stale" if lane.stale else "fresh"
    off = "" if lane.irqs_off is None else f"  irqs {'off' if lane.irqs_off else 'on'}"
    if lane.state != "running":
        return f"cpu{lane.cpu}  {lane.state:<7}  {fresh}{off}  {lane.place}"
    at = "" if lane.offset is None else f"  site{lane.offset:+d}"
    where = "continues with" if lane.inside else "at the site runs"
    return f"cpu{lane.cpu}  running  {fresh}{off}  {lane.place}{at}  {where} {lane.text}"


def lost(lane: CpuLane) -> str:
    """Return what happens to a CPU inside the site."""
    return (
        f"CPU {lane.cpu} is inside the site. After this phase it continues with {lane.then}, "
        "without the new instructions before it."
    )


def wrapped(label: str, text: str) -> list[str]:
    """Return `text`, wrapped, after `label`."""
    return wrap(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label))
