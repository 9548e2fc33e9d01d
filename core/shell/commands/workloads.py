"""Commands that run the guest: run, call, sleep."""

from __future__ import annotations

import os
import re
from fractions import Fraction

from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    UsageMistake,
    expect,
    number,
)
from ..outcome import RanWorkload

MOST_SECONDS = 60
"""Longest sleep, in seconds of virtual time."""

_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}")


def run(context: Context, arguments: Arguments) -> None:
    """Run one of the guest's workloads to its end, or list them."""
    expect(arguments, 0, 2)
    session = context.session
    if not arguments:
        for name in session.workloads():
            context.line(name)
        return
    count = number(arguments[1].text, "COUNT", 1) if len(arguments) > 1 else 1
    name = arguments[0].text
    result = signed(session.run_workload(name, count), _bits(context))
    if result < 0:
        context.fail(f"run: {name}: {os.strerror(-result)}")
    else:
        context.did(RanWorkload(name, count))


def call(context: Context, arguments: Arguments) -> None:
    """Call a function of the guest and show its result."""
    expect(arguments, 1)
    session = context.session
    values = [_value(context, word.text) for word in arguments[1:]]
    result = session.call(arguments[0].text, values)
    context.line(f"{arguments[0].text} = {result:#x} ({signed(result, _bits(context))})")


def sleep(context: Context, arguments: Arguments) -> None:
    """Let the machine run on its own for some virtual time."""
    expect(arguments, 1, 1)
    text = arguments[0].text
    if not _SECONDS.fullmatch(text):
        raise UsageMistake(f"SECONDS must be a decimal number, not '{text}'")
    seconds = Fraction(text)
    if seconds > MOST_SECONDS:
        raise UsageMistake(f"SECONDS must be at most {MOST_SECONDS}, not {text}")
    context.session.sleep(int(seconds * 1_000_000_000))


def _value(context: Context, text: str) -> int:
    """Parse a number or a symbol, which stands for its address. Raises `UsageMistake`."""
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
    """Return the width of a result or an argument, in bits."""
    return 8 * context.session.port.facts.pointer_size


def signed(value: int, bits: int) -> int:
    """Return the low `bits` bits of `value` as a signed number."""
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


COMMANDS = (
    Command(
        "run",
        "[WORKLOAD [COUNT]]",
        "run a workload, or list them",
        run,
        Argument.WORKLOAD,
        changes=Changes.WITH_ARGUMENTS,
    ),
    Command(
        "call",
        "FUNC [ARG…]",
        "call a guest function and show its result",
        call,
        Argument.FUNCTION,
        "An ARG is a number (decimal, 0x…, negative) or a symbol (its address).",
        changes=Changes.ALWAYS,
    ),
    Command(
        "sleep",
        "SECONDS",
        "let the machine run on its own for a while",
        sleep,
        details=f"SECONDS of virtual time, at most {MOST_SECONDS}; 0.5 is half a second.",
        changes=Changes.ALWAYS,
    ),
)
