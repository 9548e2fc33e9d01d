"""The vCPUs: regs."""

from __future__ import annotations

from ...trace.buffer.timetext import latest_time
from ...views.hit import hit_at
from ...views.toned import Span, Toned
from ..command import Arguments, Command, Context, cpu_number, expect
from ..outcome import ShowedRegisters
from ..text.hit import hit_lines, register_spans

COLUMNS = 3
HIT = "hit"


def regs(context: Context, arguments: Arguments) -> None:
    """Show the registers of one vCPU or of all, or those saved by a hit of an fprobe."""
    if arguments and arguments[0].text == HIT:
        _saved(context, arguments[1:])
        return
    expect(arguments, 0, 1)
    session, boot = context.session, context.boot
    cpus = [cpu_number(context, arguments[0].text)] if arguments else range(len(boot.machine.vcpus))
    digits = 2 * session.port.facts.pointer_size
    for cpu in cpus:
        context.line(session.instruction(cpu))
        values = list(boot.machine.registers(cpu).items())
        width = max(len(name) for name, _ in values)
        for start in range(0, len(values), COLUMNS):
            cells: list[Span] = []
            for name, value in values[start : start + COLUMNS]:
                cells += [("  ", ""), *register_spans(name, width, value, digits)]
            context.line(Toned(*cells[1:]))
        context.did(ShowedRegisters(cpu))


def _saved(context: Context, arguments: Arguments) -> None:
    """Show the registers of the last hit, if given up to a time, on any CPU or on one."""
    expect(arguments, 0, 2)
    session, boot = context.session, context.boot
    latest = cpu = None
    if arguments:
        latest = latest_time(arguments[0].text, boot.array.clock_in_ns)
    if len(arguments) > 1:
        cpu = cpu_number(context, arguments[1].text)
    text = boot.array.text()
    row = text.table.last_hit(None, latest, cpu)
    if row is None:
        until = "" if latest is None else " up to that time"
        where = "" if cpu is None else f" on CPU {cpu}"
        context.fail(f"regs: the trace has no event with saved registers{until}{where}")
        return
    facts = session.port.facts
    for line in hit_lines(hit_at(text, row), facts.abi, facts.pointer_size, boot.kallsyms):
        context.line(line)


COMMANDS = (
    Command(
        "regs",
        "[CPU | hit [TIME [CPU]]]",
        "show registers, or those that an event saved",
        regs,
        details="hit: the last event of dynamic_events in the trace, or the last one up to TIME.",
    ),
)
