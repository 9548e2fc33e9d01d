"""Commands that travel in time: back, redo, goto."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ...errors import UsageError
from ...ftrace.phases import Patch
from ...session.travel import Instant, Journey, instant_of
from ...trace.buffer.timetext import exact_time, split_time
from ...trace.text.tracetext import TraceText
from ..command import Arguments, Command, Context, UsageMistake, cpu_number, expect, number
from ..outcome import WentBack, WentForward, WentTo

_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_TIME = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})", re.ASCII)


def back(context: Context, arguments: Arguments) -> None:
    """Undo the last N lines."""
    count = _count(arguments)
    for words in reversed(context.session.history.back(count, context.repeat)):
        context.line(f"undone: {words}")
    context.did(WentBack(count))


def redo(context: Context, arguments: Arguments) -> None:
    """Do the next N undone lines again."""
    count = _count(arguments)
    for words in context.session.history.redo(count, context.repeat):
        context.line(f"done again: {words}")
    context.did(WentForward(count))


def goto(context: Context, arguments: Arguments) -> None:
    """Restore the machine at the instant of an event or at a time, or return from there."""
    expect(arguments, 0, 2)
    if not arguments:
        _show_reach(context)
        return
    word, boot = arguments[0].text, context.boot
    if word == "-":
        expect(arguments, 1, 1)
        count = context.session.history.since_goto()
        context.session.history.back(count, context.repeat)
        context.did(WentBack(count))
        return
    cpu = cpu_number(context, arguments[1].text) if len(arguments) > 1 else None
    text = boot.array.text()
    if _NUMBER.fullmatch(word):
        if cpu is not None:
            raise UsageMistake("an event has its own CPU: leave out CPU")
        row: int | None = _row(text, int(word))
    elif match := _TIME.fullmatch(word):
        ns = int(match[1]) * 1_000_000_000 + int(match[2].ljust(9, "0"))
        row = _row_at(text, ns, len(match[2]) <= 6, cpu) if boot.array.clock_in_ns else None
    else:
        raise UsageMistake(f"'{word}' is neither an event nor a time such as 1.234567")
    if row is None:
        instant = Instant(boot.stepper.last or 0 if cpu is None else cpu, ns)
    else:
        instant = instant_of(boot, text.table, int(text.rows.of(np.array([row]))[0][0]))
    command = " ".join(["goto", *(each.text for each in arguments)])
    arrival = Journey(context.session.history, boot, context.repeat).go(instant, command)
    if row is None:
        context.line(_nearest(text, ns))
    else:
        context.line(f"event {row + 1} of {len(text)}: {text.texts(row, row + 1)[0].strip()}")
        if instant.place is not None and not arrival.at_place:
            context.line("its call was not found: this is the time at which it was written")
    patcher = context.session.boot.ftrace.patcher
    act = patcher.unfinished
    if patcher.under_way is not None:
        for line in _phase(patcher.under_way, patcher.phase):
            context.line(line)
    elif act is not None:
        context.line(
            f"text is half written here; the last phase: {act.value}. Nothing finishes it:"
        )
        context.line("return by `goto -`; `patch watch on` before the change leads through it")
    context.line(context.session.instruction(arrival.cpu))
    context.did(WentTo(arrival.cpu))
    context.changed = False  # it is in the history already


def _phase(patch: Patch, number: int) -> Iterator[str]:
    """Yield lines about the text that `patch` has changed before its phase `number`, from 0."""
    count = len(patch.phases)
    if not any(each.writes for each in patch.phases[: patch.done]):
        done = "text is about to change"
    elif any(each.writes for each in patch.phases[patch.done :]):
        done = "text is half written"
    else:
        done = "text has changed"
    act = patch.phases[number].act.value
    yield f"{done} here, in phase {number + 1} of {count}: {act}."
    yield "It goes on when the machine runs; `patch next` leads through it"


def _row(text: TraceText, event: int) -> int:
    """Return the row of an event by its number, from 1, or from the end. Raises `UsageError`."""
    if not len(text):
        raise UsageError("the trace holds no events: go to a time instead, such as 1.234567")
    row = event - 1 if event > 0 else len(text) + event
    if event == 0 or not 0 <= row < len(text):
        nearest = 1 if event < 0 else len(text) if event > 0 else 1
        raise UsageError(
            f"the trace does not hold event {event}: it holds 1 to {len(text)}, "
            f"the nearest is {nearest}"
        )
    return row


def _row_at(text: TraceText, ns: int, rounded: bool, cpu: int | None) -> int | None:
    """Return the row of the first event at the time `ns`, on `cpu` if given, or None.

    With `rounded`, `ns` is a time as the trace prints it, in microseconds.
    """
    events = text.table.events
    if rounded:
        seconds, rest = split_time(events["ts"])
        same = seconds * np.uint64(1_000_000) + rest == np.uint64(ns // 1000)
    else:
        same = events["ts"] == np.uint64(ns)
    if cpu is not None:
        same &= events["cpu"] == cpu
    found = np.flatnonzero(same)
    return text.rows.row_at(int(found[0]), text.rows.OWN) if len(found) else None


def _nearest(text: TraceText, ns: int) -> str:
    """Return a sentence with the event nearest to a time without events."""
    times = text.table.events["ts"]
    if not len(times) or not text.context.clock_in_ns:
        return "the trace holds no event of this time"
    # Differences of unsigned times: of the larger one minus the smaller one.
    far = np.maximum(times, np.uint64(ns)) - np.minimum(times, np.uint64(ns))
    event = int(np.argmin(far))
    row = text.rows.row_at(event, text.rows.OWN)
    number = "" if row is None else f"{row + 1}, "
    return (
        "the trace holds no event of this time; the nearest is "
        f"event {number}at {exact_time(int(times[event]), True)}"
    )


def _show_reach(context: Context) -> None:
    """Show how far back `goto` can travel."""
    history = context.session.history
    points = history.points
    lines = history.lines
    context.line(f"{lines} {'line' if lines == 1 else 'lines'} can be undone")
    context.line(
        f"{len(points)} checkpoints take {points.size / 2**20:.1f} MB "
        f"of at most {points.budget >> 20} MB"
    )
    if points.short:
        context.line("the host had too little memory for more checkpoints: going back takes longer")


def _count(arguments: Arguments) -> int:
    expect(arguments, 0, 1)
    return number(arguments[0].text, "N", 1) if arguments else 1


COMMANDS = (
    Command(
        "back",
        "[N]",
        "undo the last line, or the last N",
        back,
        details="A line is undone as a whole, as it was typed. Lines that only show something do\n"
        "not count; step, run and poke do. So do reboot, goto and interrupted commands.\n"
        "Restores a checkpoint and replays what follows: the same commands leave the\n"
        "same bytes.",
    ),
    Command(
        "redo",
        "[N]",
        "repeat what `back` has undone",
        redo,
        details="N is the number of lines. Once you do something else, there is nothing to redo.",
    ),
    Command(
        "goto",
        "[EVENT | TIME [CPU] | -]",
        "go to an event of the trace, or to a time",
        goto,
        details="EVENT is the number of a row of `trace`, from 1; -1 is the last one. TIME is in\n"
        "seconds, such as 1.234567: an event that the trace prints with this time (on\n"
        "CPU, if given), or else the machine at that time. At an event, its CPU is\n"
        "about to make the call; at a return, it has just entered return_to_handler.\n"
        "Then step, look at registers and memory, or run on: what follows is the same\n"
        "as the first time.\n"
        "`goto -`, or `back`, returns. Without arguments: how far back you can go.",
    ),
)
