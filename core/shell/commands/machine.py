"""Commands on the whole machine: dmesg, reboot, back."""

from __future__ import annotations

from itertools import groupby

from ...session.journal import redo
from ..command import Arguments, Command, Context, expect, number
from ..outcome import Rebooted, WentBack


def dmesg(context: Context, arguments: Arguments) -> None:
    """Show the kernel's messages."""
    expect(arguments, 0, 0)
    for line in context.boot.machine.dmesg.lines:
        context.line(line)


def reboot(context: Context, arguments: Arguments) -> None:
    """Restart the machine as the session opened it."""
    expect(arguments, 0, 0)
    context.session.journal.drop()
    context.session.reboot()
    context.did(Rebooted())


def back(context: Context, arguments: Arguments) -> None:
    """Undo the last N commands: restart the machine and replay the others."""
    expect(arguments, 0, 1)
    count = number(arguments[0].text, "N", 1) if arguments else 1
    session = context.session
    left, undone = session.journal.before(count)
    if "reboot" in undone:
        session.journal.forget_reboot()
    session.reboot()
    redo(session, left, context.repeat, "the way back")
    for kind, same in groupby(undone, key=lambda action: isinstance(action, int)):
        for what in ["the machine ran on its own"] if kind else same:
            context.line(f"undone: {what}")
    context.did(WentBack(count))


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command("reboot", "", "restart the machine", reboot),
    Command(
        "back",
        "[N]",
        "undo the last command, or the last N",
        back,
        details="Restarts the machine and replays the other commands: the same commands leave\n"
        "the same bytes. Commands that only show something do not count; step, run and\n"
        "poke do. So does reboot.",
    ),
)
