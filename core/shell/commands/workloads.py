"""Making the guest do something, or nothing for a while: run, call, sleep."""

from __future__ import annotations

import os
import re
from fractions import Fraction

from ..command import Argument, Arguments, Command, Context, UsageMistake, expect, number

MOST_SECONDS = 60
"""Of virtual time in one sleep."""

_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}")


def run(context: Context, arguments: Arguments) -> None:
    """Run one of the guest's workloads to its end; without a name, list them."""
    expect(arguments, 0, 2)
    session = context.session
    if not arguments:
        for name in session.workloads():
            context.line(name)
        return
    count = number(arguments[1].text, "COUNT", 1) if len(arguments) > 1 else 1
    result = signed(session.run_workload(arguments[0].text, count), _bits(context))
    if result < 0:
        context.fail(f"run: {arguments[0].text}: {os.strerror(-result)}")


def call(context: Context, arguments: Arguments) -> None:
    """Call a function of the guest and show what it returns."""
    expect(arguments, 1)
    session = context.session
    values = [_value(context, word.text) for word in arguments[1:]]
    result = session.call(arguments[0].text, values)
    context.line(f"{arguments[0].text} = {result:#x} ({signed(result, _bits(context))})")


def sleep(context: Context, arguments: Arguments) -> None:
    """Let the machine run by itself for some virtual time."""
    expect(arguments, 1, 1)
    text = arguments[0].text
    if not _SECONDS.fullmatch(text):
        raise UsageMistake(f"SECONDS must be a decimal number, not '{text}'")
    seconds = Fraction(text)
    if seconds > MOST_SECONDS:
        raise UsageMistake(f"SECONDS must be at most {MOST_SECONDS}, not {text}")
    context.session.sleep(int(seconds * 1_000_000_000))


def _value(context: Context, text: str) -> int:
    """A number, or the address of a symbol."""
    try:
        value = int(text, 0)
    except ValueError:
        address = context.boot.kallsyms.address(text)
        if address is None:
            raise UsageMistake(f"'{text}' is neither a number nor a symbol") from None
        return address
    bits = _bits(context)
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise UsageMistake(f"{text} does not fit {bits} bits")
    return value


def _bits(context: Context) -> int:
    """The size of a result or an argument."""
    return 8 * context.session.port.facts.pointer_size


def signed(value: int, bits: int) -> int:
    """`value`, of so many bits, as a signed number."""
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


COMMANDS = (
    Command(
        "run",
        "[WORKLOAD [COUNT]]",
        "run a workload, or list them",
        run,
        Argument.WORKLOAD,
        changes=True,
        bare_looks=True,
    ),
    Command(
        "call",
        "FUNC [ARG…]",
        "call a guest function and show its result",
        call,
        Argument.FUNCTION,
        "An ARG is a number (decimal, 0x…, negative), or a symbol for its address.",
        changes=True,
    ),
    Command(
        "sleep",
        "SECONDS",
        "let the machine run on its own for so long",
        sleep,
        details=f"In virtual time, at most {MOST_SECONDS} seconds; 0.5 is half of one.",
        changes=True,
    ),
)
