"""The help command."""

from __future__ import annotations

from ..command import Argument, Arguments, Command, Context, UsageMistake, expect


def help_command(context: Context, arguments: Arguments) -> None:
    """List the commands, or describe one."""
    expect(arguments, 0, 1)
    if arguments:
        name = arguments[0].text
        if name not in context.commands:
            raise UsageMistake(f"unknown command '{name}' (`help` lists the commands)")
        command = context.commands[name]
        context.line(f"usage: {command.synopsis}")
        context.line(command.summary)
        if command.details:
            context.line(command.details)
        return
    width = max(len(command.synopsis) for command in context.commands.values())
    for command in context.commands.values():
        context.line(f"{command.synopsis:<{width}}  {command.summary}")


COMMANDS = (
    Command(
        "help", "[COMMAND]", "list the commands, or describe one", help_command, Argument.COMMAND
    ),
)
