"""Commands on the whole machine: dmesg, reboot."""

from __future__ import annotations

from ..command import Arguments, Command, Context, expect
from ..outcome import Rebooted


def dmesg(context: Context, arguments: Arguments) -> None:
    """Show the kernel's messages."""
    expect(arguments, 0, 0)
    for line in context.boot.machine.dmesg.lines:
        context.line(line)


def reboot(context: Context, arguments: Arguments) -> None:
    """Restart the machine as the session opened it."""
    expect(arguments, 0, 0)
    context.session.reboot()
    context.did(Rebooted())


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command("reboot", "", "restart the machine", reboot),
)
