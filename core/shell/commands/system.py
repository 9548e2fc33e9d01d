"""The machine as a whole: dmesg, reboot."""

from __future__ import annotations

from ..command import Arguments, Command, Context, expect


def dmesg(context: Context, arguments: Arguments) -> None:
    """Show the kernel's messages."""
    expect(arguments, 0, 0)
    for line in context.session.machine.dmesg.lines:
        context.line(line)


def reboot(context: Context, arguments: Arguments) -> None:
    """Start again from the state in which the session was opened."""
    expect(arguments, 0, 0)
    context.session.reboot()


COMMANDS = (
    Command("dmesg", "", "show the kernel's messages", dmesg),
    Command("reboot", "", "start the machine again", reboot),
)
