"""Going through the guest: step, next, finish, until."""

from __future__ import annotations

from collections.abc import Callable

from ...stepping import LIMIT_NS
from ..command import (
    Argument,
    Arguments,
    Command,
    Context,
    UsageMistake,
    cpu_number,
    expect,
    number,
)

MOST_STEPS = 100_000

WIDTH = 80
"""Cells of a line of what was changed."""

_SECONDS = f"{LIMIT_NS / 1e9:g}"


def step(context: Context, arguments: Arguments) -> None:
    """Execute instructions one by one on one vCPU, showing each before it runs."""
    expect(arguments, 0, 2)
    count = number(arguments[0].text, "N", 1) if arguments else 1
    if count > MOST_STEPS:
        raise UsageMistake(f"N must be at most {MOST_STEPS}, not {count}")
    cpu = _cpu(context, arguments[1:])
    session = context.session

    def each() -> None:
        _changed(context, cpu)
        context.line(session.instruction(cpu))

    context.line(session.instruction(cpu))
    session.step(cpu, count, each)


def over(context: Context, arguments: Arguments) -> None:
    """Execute one instruction, and a call to its return."""
    _go(context, arguments, context.session.step_over)


def finish(context: Context, arguments: Arguments) -> None:
    """Run to the return of a function."""
    _go(context, arguments, context.session.step_out)


def _go(context: Context, arguments: Arguments, way: Callable[[int], int]) -> None:
    """Go on from where a vCPU is; `way` takes its number and gives that of the one that came."""
    expect(arguments, 0, 1)
    cpu = _cpu(context, arguments)
    context.line(context.session.instruction(cpu))
    cpu = way(cpu)
    _changed(context, cpu)
    context.line(context.session.instruction(cpu))


def until(context: Context, arguments: Arguments) -> None:
    """Run to a place in the code."""
    expect(arguments, 1, 2)
    session = context.session
    workload = arguments[1].text if len(arguments) > 1 else None
    cpu = session.run_to(arguments[0].text, workload)
    context.line(session.instruction(cpu))


def _cpu(context: Context, arguments: Arguments) -> int:
    """The CPU that is named, else the one that was stepped or stopped last."""
    if arguments:
        return cpu_number(context, arguments[0].text)
    return context.boot.stepper.last or 0


def _changed(context: Context, cpu: int) -> None:
    """What the last step has changed: registers, then virtual time."""
    stepper = context.boot.stepper
    cells = [f"{each.name} {each.old:x}->{each.new:x}" for each in stepper.changes(cpu)]
    line = "   "
    for cell in [*cells, f"+{stepper.elapsed(cpu)} ns"]:
        if len(line) + 2 + len(cell) > WIDTH:
            context.line(line)
            line = "   "
        line += f"  {cell}" if line.strip() else f" {cell}"
    context.line(line)


COMMANDS = (
    Command(
        "step",
        "[N [CPU]]",
        "execute N instructions, showing each",
        step,
        details="CPU is the one that was stepped or stopped last, at first 0. Below each stands\n"
        "what it has changed: registers, and virtual time. Interrupts wait for the next\n"
        "run, and the other CPUs too.",
        changes=True,
    ),
    Command(
        "next",
        "[CPU]",
        "as step, but over a call",
        over,
        details="CPU as for step. The other CPUs have their turns until the call returns, which\n"
        f"must be within {_SECONDS} s of virtual time.",
        changes=True,
    ),
    Command(
        "finish",
        "[CPU]",
        "run until the function returns",
        finish,
        details="CPU as for step. Where the return is traced the function returns to\n"
        f"return_to_handler, and that is where this ends. It must do so within {_SECONDS} s\n"
        "of virtual time.",
        changes=True,
    ),
    Command(
        "until",
        "FUNC|ADDR [WORKLOAD]",
        "run until a CPU comes there",
        until,
        Argument.FUNCTION,
        details="A FUNC is its call site, if it has one. WORKLOAD is started first, unless it\n"
        "still goes on, and goes on with whatever runs next. The place must be reached\n"
        f"within {_SECONDS} s of virtual time, and before WORKLOAD ends.",
        changes=True,
    ),
)
