"""Commands on the whole machine: dmesg, reboot."""

from __future__ import annotations

from ..command import Argument, Arguments, Command, Context, UsageMistake, expect
from ..outcome import Rebooted

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
    context.session.reboot(stop_at)
    context.did(Rebooted())


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command(
        "reboot",
        f"[{STOP_AT} FUNC]",
        "restart the machine",
        reboot,
        Argument.FUNCTION,
        f"{STOP_AT}: stop when CPU 0 is about to execute FUNC for the first time. With\n"
        "ftrace_init, call sites are still as compiled; `step` and `run` resume the boot.",
    ),
)
