"""The lines of the patch screen: the site's bytes through all phases, and what each CPU runs."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from .line import Line, Span, fit, line

if TYPE_CHECKING:
    from ...core.views.patching import CpuLane, PatchView, PhaseRow

LEAST_PHASES = 3
"""Minimum number of rows of phases."""

_NEXT: Span = ("▶", "accent")

_WIDE = 110
"""Minimum width at which a phase's row also has the instructions after the phase."""

_TITLE = 48
"""Cells of a title in such a row."""


def head_lines(view: PatchView, mode: str) -> tuple[Line, ...]:
    """Return the method, the phase that comes next, and the site."""
    total = len(view.rows)
    how = "CPUs are held" if view.held else "CPUs run when the machine runs"
    word = mode.lower() if mode != "PAUSED" else ""
    return (
        line(
            (f" {view.method}  ", "strong"),
            (f"phase {view.next.number} of {total} comes next", "accent"),
            (f"   {how}", "bad" if view.held else "dim"),
            (f"   {word}", "good"),
        ),
        line(" ", (view.name, "link"), (f"  ip {view.ip:x}", "dim")),
    )


def rows_of(view: PatchView, height: int, width: int, cpu: int) -> tuple[Line, ...]:
    """Return `height` rows: the phases, the CPUs, and the words of the next phase.

    `cpu` is the CPU that the keys step.
    """
    words = word_rows(view, width)
    lanes = lane_rows(view, width, cpu)
    room = height - len(words) - len(lanes) - 2
    if room < LEAST_PHASES:
        words = words[: max(len(words) - (LEAST_PHASES - room), 0)]
        room = max(height - len(words) - len(lanes) - 2, 1)
    phases = phase_rows(view, width)
    first = _first(view, len(phases), room)
    shown = phases[first : first + room]
    rule = line(("─" * max(width, 1), "dim"))
    return (*shown, rule, *lanes, rule, *words)[:height]


def _first(view: PatchView, rows: int, room: int) -> int:
    """Return the first row to show, so that the next phase and those after it are visible."""
    return max(min(view.done - 1, rows - room), 0)


def phase_rows(view: PatchView, width: int) -> tuple[Line, ...]:
    """Return the text before the patch, then one row for each phase: its bytes and its title."""
    digits = len(str(len(view.rows)))
    none = (False,) * len(view.before)
    last = view.rows[-1]
    before, after = (
        line(
            f"  {'':{digits}} ",
            *_strip(data, none, "dim"),
            (f"  {_cut(f'{when}: {text}', view, width, digits)}", "dim"),
            at=view.ip,
        )
        for when, data, text in (
            ("before", view.before, view.before_text),
            ("after", last.data, last.text),
        )
    )
    return (before, *(_phase_row(view, row, width, digits) for row in view.rows), after)


def _phase_row(view: PatchView, row: PhaseRow, width: int, digits: int) -> Line:
    here = row is view.next
    tone = "strong" if here else "dim" if row.done else ""
    mark: Span = _NEXT if here else ("✓", "good") if row.done else (" ", "")
    safe = "" if row.safe else "! "
    title = _cut(row.title, view, width - len(safe), digits)
    if row.writes and width >= _WIDE:
        title = _cut(f"{fit(row.title, _TITLE)}  {row.text}", view, width - len(safe), digits)
    return line(
        mark,
        (f" {row.number:>{digits}} ", tone),
        *_strip(row.data, row.changed, tone),
        ("  ", ""),
        (safe, "bad"),
        (title, tone),
        at=view.ip,
    )


def _cut(text: str, view: PatchView, width: int, digits: int) -> str:
    """Cut `text` to the room after the bytes of a row."""
    room = width - (3 + digits) - (3 * len(view.before) + 1) - 3
    return fit(text, max(room, 0)).rstrip()


def _strip(data: bytes, changed: tuple[bool, ...], tone: str, pc: int | None = None) -> list[Span]:
    """Return bytes; the `changed` ones are in brackets, and `▶` is before the byte at `pc`."""
    spans: list[Span] = []
    for at, byte in enumerate(data):
        before, here = at > 0 and changed[at - 1], changed[at]
        gap = "[" if here and not before else "]" if before and not here else " "
        spans.append(("▶", "accent") if at == pc else (gap, tone))
        spans.append((f"{byte:02x}", "mark" if here else tone))
    spans.append(("]" if data and changed[-1] else " ", tone))
    return spans


def lane_rows(view: PatchView, width: int, cpu: int) -> tuple[Line, ...]:
    """Return the bytes in memory, and below them one row for each CPU."""
    digits = len(str(len(view.rows)))
    label = 3 + digits
    none = (False,) * len(view.now)
    memory = line(
        fit("mem", label),
        *_strip(view.now, none, "strong"),
        (f"  {_cut(view.text, view, width, digits)}", "strong"),
        at=view.ip,
    )
    return (memory, *(_lane(view, lane, width, label, cpu) for lane in view.lanes))


def _lane(view: PatchView, lane: CpuLane, width: int, label: int, cpu: int) -> Line:
    chosen = lane.cpu == cpu
    none = (False,) * len(lane.site)
    in_site = lane.offset is not None and 0 <= lane.offset < len(lane.site)
    changed = tuple(a != b for a, b in zip(lane.site, view.now, strict=False)) or none
    strip = _strip(lane.site, changed, "", lane.offset if in_site else None)
    fresh: Span = ("stale ", "bad") if lane.stale else ("fresh ", "dim")
    if lane.state != "running":
        where, tone = f"{lane.state} in {lane.place}", "bad" if lane.state == "dead" else "dim"
    else:
        verb = "continues with" if lane.inside else "runs" if in_site else "would run"
        at = "at the site: " if in_site and not lane.inside else ""
        where = f"{at}{verb} {lane.text}"
        if not in_site:
            offset = "" if lane.offset is None else f" (site{lane.offset:+d})"
            where = f"{lane.place}{offset}, {where}"
        tone = "strong" if in_site else ""
    if lane.irqs_off:
        where = f"irqs off, {where}"
    room = max(width - label - (3 * len(lane.site) + 1) - 1 - 6 - 1, 0)
    return line(
        (fit(f"{'*' if chosen else ' '}C{lane.cpu}", label), "accent" if chosen else ""),
        *strip,
        " ",
        fresh,
        (fit(where, room).rstrip(), tone),
        at=lane.pc,
    )


def word_rows(view: PatchView, width: int) -> tuple[Line, ...]:
    """Return lines about the next phase's action, and why it is safe or unsafe."""
    room = max(width - 2, 10)
    tone = "good" if view.next.safe else "bad"
    found = [line(" ", (text, "strong")) for text in wrap(f"{view.next.title}.", room)]
    found += [line(" ", (text, tone)) for text in wrap(view.next.why, room)]
    for lane in view.lanes:
        if lane.then:
            found += [line(" ", (text, "bad")) for text in wrap(lost(lane), room)]
    if view.obstacle is not None:
        found += [line(" ", (text, "dim")) for text in wrap(at_once(view.obstacle), room)]
    return tuple(found)


def at_once(obstacle: str) -> str:
    """Say that the host writes without the guest's help, and why."""
    return f"The host writes at once, in no virtual time: {obstacle}."


def lost(lane: CpuLane) -> str:
    """Return what happens to a CPU inside the site."""
    return (
        f"! CPU {lane.cpu} is inside the site: then it continues with {lane.then}, "
        "without the new instructions before it."
    )
