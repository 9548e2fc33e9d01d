"""Travel in time: restore the machine as it was at a time, or at an event of the trace.

The nearest checkpoint before the instant is restored, and the machine runs on to the instant. The
run repeats the first one, so it reaches the same state.

The tracer writes an event some time after the call that the event reports. So a replay watches the
call's site shortly before the event, and saves the state each time the event's task comes there.
Calls nest: an interrupt can call the same function before the event is written. So the visits are
matched with all events of that site in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..abi import TraceType
from ..errors import GuestInterrupted, UsageError
from ..ftrace.entry import RETURN_TO_HANDLER
from ..machine.scheduler import Horizon
from ..machine.vcpu import Vcpu
from ..memento import Restore
from ..trace.buffer.details import HIT
from ..trace.buffer.events import EventTable
from . import checkpoint
from .boot import Boot
from .history import DROPPED, History, Repeat
from .points import Point

MARGINS_NS = (4_000, 60_000, 2_000_000)
"""Virtual ns before an event in which to look for its call, tried in this order."""

_FOREVER = 1 << 63

_ENTRIES = (TraceType.FN, TraceType.GRAPH_ENT, HIT)


@dataclass(frozen=True, slots=True)
class Instant:
    """Where to go: CPU `cpu` at `time` (virtual ns), or at the call of an event at that time."""

    cpu: int
    time: int
    place: int | None = None
    """Address of the call site, or where the return of a graph event arrives."""
    pid: int = 0
    """The task of the event."""
    others: tuple[int, ...] = ()
    """Times of the earlier events with the same place and task."""


@dataclass(frozen=True, slots=True)
class _Visit:
    cpu: int
    time: int
    restore: Restore | None
    """None if the state was not saved."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a journey has ended."""

    cpu: int
    at_place: bool
    """Whether the CPU is at the place of the instant."""


def instant_of(boot: Boot, table: EventTable, number: int) -> Instant:
    """Return the instant of event `number` of `table`.

    Raises `UsageError` if the events have no times.
    """
    if not boot.array.clock_of_cpu:
        raise UsageError(
            f"events have no time while the trace clock is {boot.array.clock!r}: "
            "`echo local > trace_clock` first"
        )
    events = table.events
    event = events[number]
    cpu, time, kind = int(event["cpu"]), int(event["ts"]), int(event["type"])
    same = events["pid"] == event["pid"]
    if not event["pid"]:
        same &= events["cpu"] == cpu
    if kind in _ENTRIES:
        place = int(table.addresses[event["ip"]])
        same &= (events["ip"] == event["ip"]) & np.isin(events["type"], _ENTRIES)
    elif kind == TraceType.GRAPH_RET:
        place = boot.ftrace.entry[RETURN_TO_HANDLER]
        same &= events["type"] == kind
    else:
        return Instant(cpu, time)
    since = np.uint64(max(time - MARGINS_NS[-1], 0))
    same[number:] = False
    others = events["ts"][same & (events["ts"] >= since)]
    return Instant(cpu, time, place, int(event["pid"]), tuple(others.tolist()))


class Journey:
    """One way of a session to an instant of its past."""

    def __init__(self, history: History, boot: Boot, repeat: Repeat) -> None:
        self._history = history
        self._boot = boot
        self._repeat = repeat
        self._entry = -1

    def go(self, instant: Instant, command: str) -> Arrival:
        """Go to `instant`; `command` is the journal's text for it.

        Raises `UsageError` if the run does not contain the instant, and `GuestInterrupted` on
        `stop`, with nothing changed.
        """
        history, machine = self._history, self._boot.machine
        if instant.time > machine.now:
            raise UsageError(
                f"{_seconds(instant.time)} is beyond the run: it is {_seconds(machine.now)} now"
            )
        start, to = self._start(instant, MARGINS_NS[0])
        history.close()
        history.before()
        history.keep()
        what = f"the way to {_seconds(instant.time)}"
        with history.replay(what, start, instant.time):
            arrival = self._arrive(instant, start, to, what)
        self._boot.stepper.last = arrival.cpu
        history.went(command, min(self._entry, history.done - 1))
        return arrival

    def _arrive(self, instant: Instant, start: Point, to: int, what: str) -> Arrival:
        """Replay to `instant` from `start`, which is restored."""
        margins = MARGINS_NS if instant.place is not None else MARGINS_NS[:1]
        for number, margin in enumerate(margins):
            if number:
                start, to = self._start(instant, margin)
                start.restore()
            # In a wide margin are many visits, and saving each takes longer than another replay.
            visits, end = self._replay(instant, margin, start, to, what, saved=not number)
            visit = _matching(visits, instant)
            if visit is not None and visit.restore is None:
                start.restore()
                only = visits.index(visit)
                visits, end = self._replay(instant, margin, start, to, what, only=only)
                visit = visits[only]
            if visit is not None and visit.restore is not None:
                visit.restore()
                return Arrival(visit.cpu, True)
        end()
        return Arrival(instant.cpu, False)

    def _replay(
        self,
        instant: Instant,
        margin: int,
        start: Point,
        to: int,
        what: str,
        *,
        saved: bool = False,
        only: int | None = None,
    ) -> tuple[Sequence[_Visit], Restore]:
        """Return the visits of the place on the way, and a function that restores the end.

        The state is saved at all visits if `saved`, or at visit number `only`, from 0.
        """
        boot, history = self._boot, self._history
        visits: list[_Visit] = []
        ends: list[Restore] = []

        def visit(vcpu: Vcpu) -> None:
            pid = int(vcpu.local["pid"])
            # Each CPU has an idle task, and all of them are pid 0.
            if pid == instant.pid and (pid or vcpu.number == instant.cpu):
                kept = checkpoint.save(boot) if saved or only == len(visits) else None
                visits.append(_Visit(vcpu.number, vcpu.ticks, kept))

        def arrive() -> None:
            ends.append(checkpoint.save(boot))

        def run() -> None:
            self._entry = start.at[0]
            if start.stretch is None:
                history.replay_actions(start, to, self._repeat, what, self._entered)
            elif boot.machine.scheduler.take_turns(lambda: False, _FOREVER):
                raise GuestInterrupted(what)

        places = () if instant.place is None else (instant.place,)
        watch = max(instant.time - margin, 0)
        horizon = Horizon(instant.cpu, instant.time, arrive, places, watch, visit)
        if not boot.machine.scheduler.replay(horizon, run):
            arrive()  # it is the end of the run
        return visits, ends[0]

    def _entered(self, number: int) -> None:
        self._entry = number

    def _start(self, instant: Instant, margin: int) -> tuple[Point, int]:
        """Return the checkpoint to start from, and the entry before which the replay ends.

        Searches backwards along the actions that led to the present state. Raises `UsageError`.
        """
        history, cpu, time = self._history, instant.cpu, instant.time
        number, end = history.done - 1, (history.done, 0)
        while True:
            first = number
            while first >= 0 and not self._fixed(first):
                first -= 1
            begin = (first, 1) if first >= 0 else (0, 0)
            there = [point for point in history.points if begin <= point.at <= end]
            there = [point for point in there if point.times[cpu] <= time]
            usable = [
                point
                for point in there
                if point.times[cpu] <= time - margin and _reaches(point, cpu, time)
            ]
            starts = usable or [point for point in there if point.at == begin]
            to = min(end[0], history.done)
            if starts:
                start = max(starts, key=lambda point: (point.times[cpu], sum(point.times)))
                return start, to
            if first < 0 or history.entries[first].rebooted:
                break
            origin = history.entries[first].origin
            if origin is None:
                raise UsageError(DROPPED)
            number, end = origin, (origin + 1, 0)
        began = min((point.times[cpu] for point in history.points if point.at == begin), default=0)
        since = "the last reboot" if first >= 0 else "the session began"
        raise UsageError(
            f"{_seconds(time)} is before {since}: CPU {cpu} was at {_seconds(began)} then"
        )

    def _fixed(self, number: int) -> bool:
        entry = self._history.entries[number]
        return entry.rebooted or entry.origin is not None


def _reaches(point: Point, cpu: int, time: int) -> bool:
    """Whether the run in which `point` was taken lasts until `time`."""
    stretch = point.stretch
    return stretch is None or (stretch.end is not None and stretch.end[cpu] >= time)


def _matching(visits: Sequence[_Visit], instant: Instant) -> _Visit | None:
    """Return the visit that led to the event of `instant`, or None.

    An event belongs to the last visit before it that has no event yet.
    """
    waiting = list(visits)
    for time in (*instant.others, instant.time):
        before = [visit for visit in waiting if visit.time <= time]
        if time == instant.time:
            return before[-1] if before else None
        if before:
            waiting.remove(before[-1])
    return None


def _seconds(ns: int) -> str:
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d} s"
