"""Commands on the whole machine: dmesg, reboot, back."""

from __future__ import annotations

from itertools import groupby

from ...session.journal import redo
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect, number
from ..outcome import Rebooted, WentBack

STOP_AT = "--stop-at"


def dmesg(context: Context, arguments: Arguments) -> None:
    """Show the kernel's messages."""
    expect(arguments, 0, 0)
    for line in context.boot.machine.dmesg.lines:
        context.line(line)


def reboot(context: Context, arguments: Arguments) -> None:
    """Restart the machine as the session opened it, or up to a function that boots it."""
    stop_at = None
    if arguments:
        expect(arguments, 2, 2)
        if arguments[0].text != STOP_AT:
            raise UsageMistake(f"unknown option '{arguments[0].text}' (choose from: {STOP_AT})")
        stop_at = arguments[1].text
        context.session.check_stop(stop_at)
    context.session.journal.drop()
    context.session.reboot(stop_at)
    context.did(Rebooted())


def back(context: Context, arguments: Arguments) -> None:
    """Undo the last N commands: restart the machine and replay the others."""
    expect(arguments, 0, 1)
    count = number(arguments[0].text, "N", 1) if arguments else 1
    session = context.session
    left, undone = session.journal.before(count)
    if "reboot" in undone:
        session.journal.forget_reboot()
    session.reboot(None if "reboot" in undone else session.spec.stop_at)
    redo(session, left, context.repeat, "the way back")
    for kind, same in groupby(undone, key=lambda action: isinstance(action, int)):
        for what in ["the machine ran on its own"] if kind else same:
            context.line(f"undone: {what}")
    context.did(WentBack(count))


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command(
        "reboot",
        f"[{STOP_AT} FUNC]",
        "restart the machine",
        reboot,
        Argument.FUNCTION,
        f"{STOP_AT}: stop when CPU 0 is about to execute FUNC for the first time. With\n"
        "ftrace_init, call sites are still as compiled; `step` and `run` go on booting.",
    ),
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
