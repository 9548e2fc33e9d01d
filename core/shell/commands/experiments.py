"""Doing to the kernel what nobody should: how text is changed, and who is told of it."""

from __future__ import annotations

from ..command import Arguments, Command, Context, UsageMistake, cpu_number, expect


def patch(context: Context, arguments: Arguments) -> None:
    """Show how text is changed, or change it another way from now on."""
    expect(arguments, 0, 1)
    session, boot = context.session, context.boot
    methods, patcher = session.port.facts.patch_methods, boot.ftrace.patcher
    if arguments:
        method = arguments[0].text
        if method not in methods:
            raise UsageMistake(f"no method '{method}'; there is: {', '.join(methods)}")
        patcher.method = method
        return
    shown = (f"[{each}]" if each == patcher.method else each for each in methods)
    context.line(" ".join(shown))


def icache(context: Context, arguments: Arguments) -> None:
    """Show which CPUs are told of changed text, leave some out, or tell them again."""
    boot = context.boot
    patcher, cpus = boot.ftrace.patcher, len(boot.machine.vcpus)
    told = {*range(cpus)} if patcher.flush_cpus is None else {*patcher.flush_cpus}
    if not arguments:
        for cpu in range(cpus):
            words = "is told of changed text" if cpu in told else "is not told: may run old text"
            context.line(f"cpu{cpu}  {words}")
        return
    verb, wanted = arguments[0].text, [cpu_number(context, word.text) for word in arguments[1:]]
    if verb == "skip":
        expect(arguments, 2)
        patcher.flush_cpus = tuple(sorted(told.difference(wanted)))
    elif verb == "flush":
        boot.machine.flush(cpus=wanted or None)
        told.update(wanted or range(cpus))
        patcher.flush_cpus = None if len(told) == cpus else tuple(sorted(told))
    else:
        raise UsageMistake(f"unexpected argument '{verb}'")


COMMANDS = (
    Command(
        "patch",
        "[METHOD]",
        "show or choose how text is changed",
        patch,
        details="`none` writes byte by byte, or word by word, while the other CPUs go on.",
        changes=True,
        bare_looks=True,
    ),
    Command(
        "icache",
        "[skip|flush CPU…]",
        "show or choose who is told of changed text",
        icache,
        details="A CPU that is skipped goes on with the text that it has run before, until it is\n"
        "flushed (without CPU: all). So does an instruction cache that nobody flushed.",
        changes=True,
        bare_looks=True,
    ),
)
