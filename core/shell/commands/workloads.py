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
from ..words import Word
from .buffers import buffer_name, c_string, shown

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
    values = [_value(context, word) for word in arguments[1:]]
    remarks: list[str] = []
    result = session.call(arguments[0].text, values, remarks.append)
    context.line(f"{arguments[0].text} = {result:#x} ({signed(result, _bits(context))})")
    for remark in remarks:
        context.line(remark)
    used = [word.text[1:] for word in arguments[1:] if word.text[:1] == "@" and not word.quoted]
    for name in dict.fromkeys(each.partition("+")[0] for each in used):
        context.line(f"@{name} = {shown(context, name)}")


def sleep(context: Context, arguments: Arguments) -> None:
    """Run the machine for some virtual time."""
    expect(arguments, 1, 1)
    text = arguments[0].text
    if not _SECONDS.fullmatch(text):
        raise UsageMistake(f"SECONDS must be a decimal number, not '{text}'")
    seconds = Fraction(text)
    if seconds > MOST_SECONDS:
        raise UsageMistake(f"SECONDS must be at most {MOST_SECONDS}, not {text}")
    context.session.sleep(int(seconds * 1_000_000_000))


def _value(context: Context, word: Word) -> int:
    """Return the number, or the address of the string, buffer or symbol, that `word` stands for.

    Raises `UsageMistake` and `UsageError`.
    """
    text = word.text
    if word.quoted:
        return context.boot.buffers.string(c_string(text))
    if text.startswith("@"):
        name, plus, offset = text.partition("+")
        address, _ = context.boot.buffers.find(buffer_name(name))
        return address + (number(offset, "OFF") if plus else 0)
    try:
        value = int(text, 0)
    except ValueError:
        symbol = context.boot.kallsyms.address(text)
        if symbol is None:
            raise UsageMistake(
                f"'{text}' is neither a number nor a symbol; a string needs quotes"
            ) from None
        return symbol
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
        "An ARG is a number (decimal, 0x…, negative), a symbol (its address), a string\n"
        "in quotes (placed in guest memory), or @NAME[+OFF], a buffer of `mem`. The\n"
        "buffers that a call was given are shown after it.",
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
