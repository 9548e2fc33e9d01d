"""The status line: the machine and the tracer at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from ...present.line import Line, Span, line, plain
from ...present.view import Status

MODES = {"BOOTING": "dim", "PAUSED": "strong", "RUNNING": "good", "BUSY": "accent", "FAILED": "bad"}
"""Tones of what the machine's thread is doing."""


_TRACER = 8
"""Cells of a tracer's name; a few names are longer."""

_ARCH = 8
"""Most cells of an architecture's name; the name of a build (`x86_64_2008`) is longer."""

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
        self._mode = "BOOTING"

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
    """Return the fields that fit `width` cells: all from 120 on, the essential ones on 80."""
    tracer: Span = (f"{status.tracer:<{_TRACER}}", "strong" if status.tracer != "nop" else "")
    if status.ftrace_off:
        on: Span = ("ftrace OFF", "bad")
    elif status.tracing_on:
        on = ("tracing on", "")
    else:
        on = ("tracing off", "accent")
    if status.halted:
        numbers = ",".join(str(cpu) for cpu in status.halted)
        last: Span = (f"CPU {numbers} oopsed", "bad")
    elif status.found is not None:
        last = (found_sites(*status.found), "accent" if status.found[1] else "")
    else:
        last = (status.patch, "dim")
    mode_tone = MODES.get(mode, "")
    counts = f"{status.events:>9,} events {status.lost:>5,} lost"
    if not status.arch:
        return line((" dynftrace".ljust(width - len(mode) - 1), "strong"), (f"{mode} ", mode_tone))
    name = " dynftrace  " if width >= 140 else " "
    unit = " s" if width >= 140 else ""
    short = f"{status.events:>7,} ev {status.lost:>4,} lost"
    if width >= 120:
        # Some names of builds and tracers are long, and so are the counts of ftraced.
        long = len(status.arch) > _ARCH or len(status.tracer) > _TRACER
        tight = width < 145 and (long or status.found is not None)
        fields: list[tuple[Span, ...]] = [
            ((name + f"{status.arch} · {_cpus(status.cpus)}", "strong"),),
            (tracer,) if tight else (("tracer ", "dim"), tracer),
            ((f"{on[0]:<11}", on[1]),),
            ((short if tight else counts, ""),),
            ((seconds(status.now) + unit, ""),),
            (last,),
        ]
    else:
        fields = [
            ((f" {status.arch}", "strong"),),
            (on if on[1] else tracer,),
            ((short, ""),),
        ]
        if status.halted or status.found is not None:
            fields.append((last,))
        elif width >= 80:
            fields.append(((seconds(status.now), ""),))
    # Leave out what does not fit: first the lost events, then all events.
    at = 3 if width >= 120 else 2
    for shorter in ([((f"{status.events:>7,} ev", ""),)], []):
        if len(plain(_joined(fields))) + _MODE + 2 > width:
            fields[at : at + 1] = shorter
    joined = _joined(fields)
    end = f"{mode} "
    gap = width - len(plain(joined)) - len(end)
    return line(*joined, (" │ ".ljust(gap)[: max(gap, 1)], "rule"), (end, mode_tone))


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
