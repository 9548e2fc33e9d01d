"""Commands that travel in time: back, redo."""

from __future__ import annotations

from ..command import Arguments, Command, Context, expect, number
from ..outcome import WentBack, WentForward


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
        "do what `back` has undone again",
        redo,
        details="N is the number of lines. Once you do something else, there is nothing to redo.",
    ),
)
