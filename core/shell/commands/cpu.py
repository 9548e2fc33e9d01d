"""The vCPUs: regs."""

from __future__ import annotations

from ...trace.timetext import latest_time
from ...views.hit import hit_at, hit_lines
from ..command import Arguments, Command, Context, cpu_number, expect

COLUMNS = 3
HIT = "hit"


def regs(context: Context, arguments: Arguments) -> None:
    """Show the registers of one vCPU, or of all, or those that a hit of an fprobe saved."""
    if arguments and arguments[0].text == HIT:
        _saved(context, arguments[1:])
        return
    expect(arguments, 0, 1)
    session = context.session
    cpus = (
        [cpu_number(context, arguments[0].text)] if arguments else range(len(session.machine.vcpus))
    )
    digits = 2 * session.port.facts.pointer_size
    for cpu in cpus:
        context.line(session.instruction(cpu))
        values = list(session.machine.registers(cpu).items())
        width = max(len(name) for name, _ in values)
        cells = [f"{name:>{width}} {value:0{digits}x}" for name, value in values]
        for start in range(0, len(cells), COLUMNS):
            context.line("  ".join(cells[start : start + COLUMNS]))


def _saved(context: Context, arguments: Arguments) -> None:
    """Show the registers of the last hit, or the last up to a time, of any CPU or of one."""
    expect(arguments, 0, 2)
    session = context.session
    latest = cpu = None
    if arguments:
        latest = latest_time(arguments[0].text, session.array.clock_in_ns)
    if len(arguments) > 1:
        cpu = cpu_number(context, arguments[1].text)
    text = session.array.text()
    row = text.table.last_hit(None, latest, cpu)
    if row is None:
        until = "" if latest is None else " up to that time"
        where = "" if cpu is None else f" on CPU {cpu}"
        context.fail(f"regs: no hit of an event with registers in the trace{until}{where}")
        return
    facts = session.port.facts
    for line in hit_lines(hit_at(text, row), facts.abi, facts.pointer_size, session.kallsyms):
        context.line(line)


COMMANDS = (
    Command(
        "regs",
        "[CPU | hit [TIME [CPU]]]",
        "show registers, or those an event saved",
        regs,
        details="hit: of the last event of dynamic_events in the trace, or the last up to TIME.",
    ),
)
