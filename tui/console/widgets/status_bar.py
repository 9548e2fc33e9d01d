"""The status line: the machine and the tracer at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from ...present.line import Line, Span, line, plain
from ...present.view import Status
from .function_columns import compact

RECORDED = "RECORDED"
"""Text in place of the mode for a recorded trace."""

MODES = {"OPENING": "dim", "PAUSED": "strong", "RUNNING": "good", "BUSY": "accent", "FAILED": "bad"}
"""Tones of the states of the machine's thread."""


_TRACER = 8
"""Cells of a tracer's name; a few names are longer."""

_ROOMY, _NAMED = 120, 140
"""Minimum widths for the number of CPUs and the unit of time, and for the program's name."""

_MODE = max(map(len, MODES))


class StatusBar(Widget):
    """Shows one row of fields with fixed widths, so that nothing moves while numbers grow."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"status--{tone}" for tone in (*MODES.values(), "rule")
    }

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._status = Status()
        self._mode = "OPENING"

    def show(self, status: Status, mode: str) -> None:
        """Show `status` and `mode`; draw only if they have changed."""
        if (status, mode) != (self._status, self._mode):
            self._status, self._mode = status, mode
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the row."""
        width = self.size.width
        base = self.rich_style
        segments = [
            Segment(
                text,
                base + self.get_component_rich_style(f"status--{tone}", partial=True)
                if tone
                else base,
            )
            for text, tone in status_line(self._status, self._mode, width)
        ]
        return Strip(segments).crop_extend(0, width, base)


def status_line(status: Status, mode: str, width: int) -> Line:
    """Return the fields that fit `width` cells, the essential ones first.

    While numbers grow no field moves; the last one appears when a buffer is full.
    """
    if status.recorded and mode == "PAUSED":
        mode = RECORDED
    mode_tone = MODES.get(mode, "")
    end = f"{mode} "
    if not status.arch:
        return line((" dynftrace".ljust(width - len(end)), "strong"), (end, mode_tone))
    name = " dynftrace  " if width >= _NAMED else " "
    cpus = f" · {_cpus(status.cpus)}" if width >= _ROOMY else ""
    if status.ftrace_off:
        on: tuple[int, Span] = (0, ("ftrace OFF ", "bad"))
    elif status.tracing_on:
        on = (5, ("tracing on ", ""))
    else:
        on = (0, ("tracing off", "accent"))
    if status.halted:
        numbers = ",".join(str(cpu) for cpu in status.halted)
        last: tuple[int, Span] = (0, (f"CPU {numbers} oopsed", "bad"))
    elif status.found is not None:
        last = (0, (found_sites(*status.found), "accent" if status.found[1] else ""))
    else:
        last = (6, (status.patch, "dim"))
    tracer: Span = (f"{status.tracer:<{_TRACER}}", "strong" if status.tracer != "nop" else "")
    # The first number is the order of removal on a narrow line: the highest goes first, 0 never.
    fields: list[tuple[int, tuple[Span, ...]]] = [
        (0, ((f"{name}{status.arch}{cpus}", "strong"),)),
        # A long name needs no label.
        (1, (tracer,) if len(status.tracer) > _TRACER else (("tracer ", "dim"), tracer)),
        (on[0], (on[1],)),
        (3, ((f"{status.events:>7,} events", ""),)),
        (4, ((seconds(status.now) + (" s" if cpus else ""), ""),)),
        (last[0], (last[1],)),
    ]
    if status.recorded:
        fields.remove((on[0], (on[1],)))
    if status.overwritten or status.dropped:
        full = compact(status.overwritten + status.dropped, 4)
        fields.append((2, ((f"{full} {'dropped' if status.dropped else 'overwritten'}", ""),)))
    while (joined := _joined([spans for _, spans in fields])) and any(order for order, _ in fields):
        if len(plain(joined)) + _MODE + 2 <= width:
            break
        fields.remove(max(fields, key=lambda field: field[0]))
    gap = width - len(plain(joined)) - len(end)
    rule = " │ ".ljust(gap) if gap > 2 else " " * max(gap, 1)
    return line(*joined, (rule, "rule"), (end, mode_tone))


def _joined(fields: Sequence[tuple[Span, ...]]) -> tuple[Span, ...]:
    """Return the fields with rules between them."""
    rule: Span = (" │ ", "rule")
    return tuple(span for n, field in enumerate(fields) for span in (*((rule,) * (n > 0)), *field))


def found_sites(records: int, waiting: int) -> str:
    """Return the number of records ftraced has made, and of sites waiting: `ftraced  345 + 12`."""
    return f"ftraced {records:>4}" + (f" +{waiting:>3}" if waiting else " " * 5)


def seconds(ns: int) -> str:
    """Return virtual time in seconds, with decimals in groups of three: `0.004 812 310`."""
    whole, rest = divmod(ns, 1_000_000_000)
    digits = f"{rest:09d}"
    return f"{whole}.{digits[:3]} {digits[3:6]} {digits[6:]}"


def _cpus(count: int) -> str:
    return f"{count} cpu" + ("" if count == 1 else "s")
