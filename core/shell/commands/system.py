"""The machine as a whole: dmesg, reboot."""

from __future__ import annotations

from itertools import groupby

from ...journal import redo
from ..command import Arguments, Command, Context, expect, number


def dmesg(context: Context, arguments: Arguments) -> None:
    """Show the kernel's messages."""
    expect(arguments, 0, 0)
    for line in context.boot.machine.dmesg.lines:
        context.line(line)


def reboot(context: Context, arguments: Arguments) -> None:
    """Start again from the state in which the session was opened."""
    expect(arguments, 0, 0)
    context.session.reboot()


def back(context: Context, arguments: Arguments) -> None:
    """Go back to before the last command, or the last N: start anew, do the others again."""
    expect(arguments, 0, 1)
    count = number(arguments[0].text, "N", 1) if arguments else 1
    session = context.session
    left = session.journal.before(count)
    undone = session.journal.actions[len(left) :]
    session.reboot()
    redo(session, left, context.repeat, "the way back")
    for kind, same in groupby(undone, key=lambda action: isinstance(action, int)):
        for told in ["the machine ran on its own"] if kind else same:
            context.line(f"undone: {told}")


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command("reboot", "", "start the machine again", reboot),
    Command(
        "back",
        "[N]",
        "undo the last command, or the last N",
        back,
        details="Starts the machine anew and does the others again: the same commands leave the\n"
        "same bytes. Commands that only look do not count; step, run and pokes do.",
    ),
)
