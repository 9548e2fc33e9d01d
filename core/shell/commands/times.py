"""Where the time went: flame, hist."""

from __future__ import annotations

from ...errors import DynftraceError
from ...trace.export.stacks import has_calls
from ...trace.text.tracetext import TraceText
from ...views.times import flame, histogram, largest, zoomed
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect

BAR = 10
"""Cells of a bar that stands for the whole time."""

WIDEST = 40
"""Cells of the longest bar of a histogram."""


def _trace(context: Context) -> TraceText:
    """Return the trace. Raises `DynftraceError` if it has no times."""
    text = context.boot.array.text()
    if not has_calls(text):
        raise DynftraceError("no call has been timed: first echo function_graph > current_tracer")
    return text


def show_flame(context: Context, arguments: Arguments) -> None:
    """Show the tree of calls with the time of each."""
    expect(arguments, 0, 2)
    words = [each.text for each in arguments]
    typed = words.pop() if words and _is_number(words[-1]) else "1"
    if len(words) > 1:
        raise UsageMistake(f"PERCENT must be a number, not '{words[1]}'")
    percent = float(typed)
    if not 0 <= percent <= 100:
        raise UsageMistake(f"PERCENT must be 0 to 100, not {typed}")
    text = _trace(context)
    root = flame(text)
    if words:
        below = zoomed(root, words[0], text.context.text_prefix)
        if below is None:
            raise DynftraceError(f"the trace has no timed call of {words[0]}")
        root = below
    whole = max(root.total_ns, 1)
    context.line(f"{'':{BAR}}   total     own    calls")
    for frame in largest(root, percent / 100):
        share, own = frame.total_ns / whole, frame.own_ns / whole
        bar = "#" * round(BAR * share)
        calls = f"{frame.calls:,}" if frame.calls else ""
        name = f"{' ' * frame.depth}{frame.name}"
        if frame is root:
            name += f", {root.total_ns / 1000:,.3f} us"
            name += "" if words else " without idle tasks"
        context.line(f"{bar:<{BAR}} {share:>7.1%} {own:>7.1%} {calls:>8}  {name}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_hist(context: Context, arguments: Arguments) -> None:
    """Show how long the calls of a function took."""
    expect(arguments, 1, 1)
    function = arguments[0].text
    found = histogram(_trace(context), function)
    if found is None:
        raise DynftraceError(f"no call of {function} in the trace has returned")
    times = found.durations
    median = int(times[len(times) // 2])
    calls = "1 call" if len(times) == 1 else f"{len(times):,} calls"
    context.line(
        f"{function}  {calls}, {_us(int(times[0]))} to {_us(int(times[-1]))} us, "
        f"median {_us(median)} us"
    )
    buckets = found.buckets()
    most = max(count for _, _, count in buckets)
    width = len(_us(buckets[-1][1]))
    for low, high, count in buckets:
        bar = "#" * (-(-WIDEST * count // most))
        limits = f"{_us(low):>{width}} to {_us(high):>{width}} us"
        context.line(f"{limits} {count:>8,}  {bar}".rstrip())


def _us(ns: int) -> str:
    return f"{ns / 1000:,.3f}"


COMMANDS = (
    Command(
        "flame",
        "[FUNC] [PERCENT]",
        "show which calls took the time, as a tree",
        show_flame,
        Argument.FUNCTION,
        "Needs the tracer function_graph; its times include sleeping. Calls below\n"
        "PERCENT (1) of the time are left out. FUNC: only its calls and what they call;\n"
        "CALLER,FUNC: only those from CALLER; a task is a caller too.\n"
        "`dynftrace export` writes folded stacks.",
    ),
    Command(
        "hist",
        "FUNC",
        "show how long the calls of a function took",
        show_hist,
        Argument.FUNCTION,
        "Needs the tracer function_graph.",
    ),
)
