"""Pictures in characters: map, lanes."""

from __future__ import annotations

from ...views.address_map import map_drawing
from ...views.call_site import find_sites
from ...views.drawing import plain_lines
from ...views.lanes import Lanes
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect, number
from ..outcome import ShowedPicture

WIDTH = 80
"""Columns of a picture."""


def show_map(context: Context, arguments: Arguments) -> None:
    """Show the address space to scale, with the window that a call reaches."""
    expect(arguments, 0, 1)
    ip = None
    if arguments:
        boot, word = context.boot, arguments[0].text
        prefix = boot.port.facts.abi.text_prefix
        ip = next(iter(find_sites(boot.ftrace.records, word, prefix)), None)
        if ip is None:
            raise UsageMistake(f"no function named '{word}' has a call site")
    for line in plain_lines(map_drawing(context.session.address_space(ip)), WIDTH):
        context.line(line)
    context.did(ShowedPicture("map"))


def show_lanes(context: Context, arguments: Arguments) -> None:
    """Show what each CPU did over virtual time, from the trace."""
    expect(arguments, 0, 2)
    lanes = Lanes(context.boot.array.text(), context.boot.ftrace.patcher.performed)
    first, last = lanes.span
    start = number(arguments[0].text, "FROM") if arguments else first
    end = number(arguments[1].text, "TO") if len(arguments) > 1 else last
    if end <= start:
        raise UsageMistake(f"TO must be greater than FROM: {end:,} is not after {start:,} ns")
    if end >= 1 << 63:
        raise UsageMistake("TO is too large: times are ns in 63 bits")
    for line in plain_lines(lanes.drawing(start, end, WIDTH - 24), WIDTH):
        context.line(line)
    context.did(ShowedPicture("lanes"))


COMMANDS = (
    Command(
        "map",
        "[FUNC]",
        "show the address space, and what a call reaches",
        show_map,
        Argument.FUNCTION,
        "FUNC: show what the call site of this function reaches; ✗ is out of reach.\n"
        "Each region is drawn to scale; distant regions have different scales.\n"
        "`dynftrace draw` writes SVG.",
    ),
    Command(
        "lanes",
        "[FROM [TO]]",
        "show what each CPU did over virtual time",
        show_lanes,
        details="From the events of the trace: tasks, events, interrupts (h) and NMIs (Z).\n"
        "FROM and TO are in ns; they default to the first and the last event.",
    ),
)
