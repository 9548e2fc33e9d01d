"""Commands that execute the guest in steps: step, next, finish, until."""

from __future__ import annotations

from collections.abc import Callable

from ...machine.vcpu import State
from ...session.stepping import LIMIT_NS
from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    UsageMistake,
    cpu_number,
    expect,
    number,
)
from ..outcome import Reached, ShowedStack, Stepped
from ..text.stepping import cell_lines, memory_cell, operand_lines, stack_lines

MOST_STEPS = 100_000

WORDS, MOST_WORDS = 16, 2048
"""Default and maximum number of stack words shown; the maximum is a whole stack."""

_SECONDS = f"{LIMIT_NS / 1e9:g}"


def step(context: Context, arguments: Arguments) -> None:
    """Execute instructions one by one on one vCPU; show each before it runs."""
    expect(arguments, 0, 2)
    count = number(arguments[0].text, "N", 1) if arguments else 1
    if count > MOST_STEPS:
        raise UsageMistake(f"N must be at most {MOST_STEPS}, not {count}")
    cpu = _cpu(context, arguments[1:])
    session = context.session

    left = count

    def each() -> None:
        nonlocal left
        left -= 1
        _changed(context, cpu)
        if left:
            context.line(session.instruction(cpu))
        else:
            _next(context, cpu)

    _start(context, cpu)
    session.step(cpu, count, each)
    context.did(Stepped(cpu))


def over(context: Context, arguments: Arguments) -> None:
    """Execute one instruction; run a call up to its return."""
    _go(context, arguments, context.session.step_over)


def finish(context: Context, arguments: Arguments) -> None:
    """Run until the current function returns."""
    _go(context, arguments, context.session.step_out)


def _go(context: Context, arguments: Arguments, way: Callable[[int], int]) -> None:
    """Run a vCPU by `way`, which maps its number to that of the vCPU that arrived."""
    expect(arguments, 0, 1)
    cpu = _cpu(context, arguments)
    _start(context, cpu)
    cpu = way(cpu)
    context.did(Stepped(cpu))
    _changed(context, cpu)
    _next(context, cpu)


def until(context: Context, arguments: Arguments) -> None:
    """Run until a vCPU is about to execute a given address."""
    expect(arguments, 1, 2)
    session = context.session
    workload = arguments[1].text if len(arguments) > 1 else None
    cpu = session.run_to(arguments[0].text, workload)
    pc = context.boot.machine.vcpus[cpu].registers.pc
    context.did(Reached(arguments[0].text, cpu, pc))
    _next(context, cpu)


def _cpu(context: Context, arguments: Arguments) -> int:
    """Return the given CPU, by default the CPU that was last stepped or stopped."""
    if arguments:
        return cpu_number(context, arguments[0].text)
    return context.boot.stepper.last or 0


def _start(context: Context, cpu: int) -> None:
    """Show the instruction at which `cpu` is. Raises `GuestError` for a vCPU that never ran."""
    _check_started(context, cpu)
    context.line(context.session.instruction(cpu))


def _check_started(context: Context, cpu: int) -> None:
    """Raise `GuestError` for a vCPU that never ran."""
    machine = context.boot.machine
    if machine.vcpus[cpu].state is State.OFF:
        raise machine.scheduler.not_running(cpu)


def _changed(context: Context, cpu: int) -> None:
    """Show what the last step has changed: registers, memory, then virtual time."""
    boot = context.boot
    stepper, vcpu = boot.stepper, boot.machine.vcpus[cpu]
    cells = [f"{each.name} {each.old:x}->{each.new:x}" for each in stepper.changes(cpu)]
    written = (each for each in stepper.accesses if each.after is not None)
    cells += [memory_cell(boot.operands.named(vcpu, each)) for each in written]
    for line in cell_lines([*cells, f"+{stepper.elapsed(cpu)} ns"]):
        context.line(line)


def _next(context: Context, cpu: int) -> None:
    """Show the next instruction of `cpu`, and its operands."""
    context.line(context.session.instruction(cpu))
    for line in operand_lines(context.session.operands(cpu)):
        context.line(line)


def stack(context: Context, arguments: Arguments) -> None:
    """Show the stack of one vCPU word by word."""
    expect(arguments, 0, 2)
    words = number(arguments[0].text, "N", 1) if arguments else WORDS
    if words > MOST_WORDS:
        raise UsageMistake(f"N must be at most {MOST_WORDS}, not {words}")
    cpu = _cpu(context, arguments[1:])
    _check_started(context, cpu)
    for line in stack_lines(context.session.stack(cpu, words)):
        context.line(line)
    context.did(ShowedStack(cpu))


COMMANDS = (
    Command(
        "step",
        "[N [CPU]]",
        "execute N instructions, showing each",
        step,
        details="CPU defaults to the one last stepped or stopped, initially 0. Below each\n"
        "instruction are its effects: changed registers and memory, and virtual time. The\n"
        "next instruction comes last, with its operands. Interrupts and the other CPUs\n"
        "wait until the machine runs again.",
        changes=Changes.ALWAYS,
    ),
    Command(
        "stack",
        "[N [CPU]]",
        "show N words of the stack, and what each is",
        stack,
        details="N defaults to 16, CPU as for step. Words that the ABI, ftrace_caller or a call\n"
        "has saved there are named. The ret_stack of the graph tracer follows.",
    ),
    Command(
        "next",
        "[CPU]",
        "like step, but run a call up to its return",
        over,
        details="CPU as for step. The other CPUs run too until the call returns. It must\n"
        f"return within {_SECONDS} s of virtual time.",
        changes=Changes.ALWAYS,
    ),
    Command(
        "finish",
        "[CPU]",
        "run until the current function returns",
        finish,
        details="CPU as for step. If the return is traced, the function returns to\n"
        "return_to_handler, and `finish` ends there. It must return within\n"
        f"{_SECONDS} s of virtual time.",
        changes=Changes.ALWAYS,
    ),
    Command(
        "until",
        "FUNC|ADDR [WORKLOAD]",
        "run until a CPU reaches an address",
        until,
        Argument.FUNCTION,
        details="A FUNC means its call site, if it has one. WORKLOAD is started first, unless it\n"
        "is still running; it continues with the next command that runs the machine. The\n"
        f"address must be reached within {_SECONDS} s of virtual time and before WORKLOAD ends.",
        changes=Changes.ALWAYS,
    ),
)
