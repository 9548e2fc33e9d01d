"""NMIs: interrupts that are delivered even while interrupts are off."""

from __future__ import annotations

from ...machine.machine import Machine
from ...trace.buffer.timetext import exact_time, latest_time
from ..command import Arguments, Changes, Command, Context, UsageMistake, cpu_number, expect, number

LEAST_PERIOD_NS = 100


def nmi(context: Context, arguments: Arguments) -> None:
    """Show the pending NMIs, or deliver NMIs to one vCPU: now, at a time, or periodically."""
    machine = context.boot.machine
    if not arguments:
        for cpu in range(len(machine.vcpus)):
            context.line(_state(machine, cpu))
        return
    cpu = cpu_number(context, arguments[0].text)
    words = [word.text for word in arguments[1:]]
    match words:
        case []:
            machine.send_nmi(cpu)
        case ["off"]:
            machine.cancel_nmi(cpu)
        case ["change"]:
            machine.send_nmi_in_change(cpu)
        case ["every", *_]:
            expect(arguments, 3, 3)
            period = number(words[1], "NS", LEAST_PERIOD_NS)
            machine.send_nmi(cpu, machine.vcpus[cpu].ticks + period, period)
        case [text]:
            at, now = latest_time(text, True), machine.vcpus[cpu].ticks
            if at < now:
                raise UsageMistake(
                    f"{text} has passed: CPU {cpu} is at {exact_time(now, True)}; give a later time"
                )
            machine.send_nmi(cpu, at)
        case _:
            expect(arguments, 0, 2)


def _state(machine: Machine, cpu: int) -> str:
    interrupts = machine.vcpus[cpu].interrupts
    parts = [f"cpu{cpu}  {interrupts.nmis} NMIs"]
    if interrupts.nmi is not None:
        parts.append(f"next at {exact_time(interrupts.nmi, True)}")
    if interrupts.nmi_period:
        parts.append(f"every {interrupts.nmi_period} ns")
    if interrupts.nmi_in_change:
        parts.append("one in the next change of text")
    return ", ".join(parts)


COMMANDS = (
    Command(
        "nmi",
        "[CPU [AT|every NS|off]]",
        "show NMIs, or deliver them to a CPU",
        nmi,
        details="Without AT, the NMI comes before the next block that the CPU executes.\n"
        "AT is a time as in the trace, such as 0.001234; nine decimals are exact.\n"
        "change, instead of AT: in the middle of the next change of sites, after four\n"
        "bytes of the first one.\n"
        "An NMI also comes while interrupts are off, and inside the tracer: its events\n"
        "have the flag Z. The handler is common_nmi, which runs on a stack of its own.",
        changes=Changes.WITH_ARGUMENTS,
    ),
)
