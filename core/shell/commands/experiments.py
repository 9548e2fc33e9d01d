"""Experiments: which CPUs ftrace flushes, text it cannot access, and sleep."""

from __future__ import annotations

from ...machine.protection import Protection
from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    UsageMistake,
    cpu_number,
    expect,
)


def icache(context: Context, arguments: Arguments) -> None:
    """Show which CPUs are flushed after a patch, or choose others."""
    boot = context.boot
    patcher, cpus = boot.ftrace.patcher, len(boot.machine.vcpus)
    flushed = {*range(cpus)} if patcher.flush_cpus is None else {*patcher.flush_cpus}
    if not arguments:
        for cpu in range(cpus):
            words = "flushed after a patch" if cpu in flushed else "not flushed: may run old text"
            context.line(f"cpu{cpu}  {words}")
        return
    verb, wanted = arguments[0].text, [cpu_number(context, word.text) for word in arguments[1:]]
    if verb == "skip":
        expect(arguments, 2)
        patcher.flush_cpus = tuple(sorted(flushed.difference(wanted)))
    elif verb == "flush":
        boot.machine.flush(cpus=wanted or None)
        flushed.update(wanted or range(cpus))
        patcher.flush_cpus = None if len(flushed) == cpus else tuple(sorted(flushed))
    else:
        raise UsageMistake(f"unknown action '{verb}' (choose from: skip, flush)")


def idle(context: Context, arguments: Arguments) -> None:
    """Show or choose whether the latency tracers count the sleep of idle CPUs."""
    expect(arguments, 0, 1)
    tracer = context.boot.array.latency.tracer
    counted = tracer.traces_idle
    if counted is None:
        raise UsageMistake("this kernel does not report critical sections")
    if not arguments:
        context.line("excluded [counted]" if counted else "[excluded] counted")
        return
    wanted = arguments[0].text
    if wanted not in ("excluded", "counted"):
        raise UsageMistake(f"unknown choice '{wanted}' (choose from: excluded, counted)")
    tracer.set_traces_idle(wanted == "counted")


_PROTECTED = {
    Protection.NONE: "not mapped",
    Protection.READ_ONLY: "text cannot be written",
    Protection.READ_WRITE: "text can be written",
}


def protect(context: Context, arguments: Arguments) -> None:
    """Show the protected pages of code, or protect one."""
    session, memory = context.session, context.boot.machine.memory
    if not arguments:
        for page, protection in memory.protected.items():
            context.line(_page(context, page, protection))
        if not memory.protected:
            context.line("no page of code is protected")
        return
    expect(arguments, 2, 2)
    word = arguments[1].text
    if word not in {each.value for each in Protection}:
        known = ", ".join(each.value for each in Protection)
        raise UsageMistake(f"unknown protection '{word}' (choose from: {known})")
    protection = Protection(word)
    page = session.protect(session.address_of(arguments[0].text), protection)
    context.line(_page(context, page, protection))


def _page(context: Context, page: int, protection: Protection) -> str:
    """Return the line of a page: its address, its protection, and the symbol where it begins."""
    place = context.boot.kallsyms.format(page)
    return f"{page:x}  {protection.value:<4}  {_PROTECTED[protection]}  {place}"


COMMANDS = (
    Command(
        "icache",
        "[skip|flush CPU…]",
        "show or choose which CPUs are flushed",
        icache,
        details="A skipped CPU has a stale instruction cache: text that it has executed before\n"
        "stays the old text until the CPU is flushed. `flush` alone flushes all CPUs.",
        changes=Changes.WITH_ARGUMENTS,
    ),
    Command(
        "idle",
        "[excluded|counted]",
        "show or choose whether sleep counts as latency",
        idle,
        details="`counted` takes stop_critical_timings() out of the idle loop. Then irqsoff,\n"
        "preemptoff and preemptirqsoff report an idle CPU's sleep as the longest latency.",
        changes=Changes.WITH_ARGUMENTS,
    ),
    Command(
        "protect",
        "[ADDR none|ro|rw]",
        "show or protect pages of code",
        protect,
        Argument.FUNCTION,
        "ADDR is an address or SYMBOL[+OFF] in the page.\n"
        "none: the page is not mapped, so reading its text fails (EFAULT), and a CPU that\n"
        "executes it oopses. ro: text cannot be written (EPERM on most ports).\n"
        "rw: undo. ftrace reports a bug, changes nothing and shuts off, as in the kernel.",
        changes=Changes.WITH_ARGUMENTS,
    ),
)
