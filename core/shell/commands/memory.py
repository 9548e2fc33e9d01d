"""Changing guest memory by hand: poke."""

from __future__ import annotations

import re

from ...errors import AssemblyError
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect

_BYTE = re.compile(r"(?:[0-9a-fA-F]{2})+")


def poke(context: Context, arguments: Arguments) -> None:
    """Write bytes, or an instruction assembled for the place, and show what was there."""
    expect(arguments, 2)
    session = context.session
    address = session.address_of(arguments[0].text)
    words = [word.text for word in arguments[1:]]
    data = hex_bytes(words)
    if data is None:
        data = _assembled(context, " ".join(words), address)
    if not data:
        raise UsageMistake("nothing to write")
    old = session.instructions(address, len(data))
    session.poke(address, data)
    context.line(f"{address:x} {session.kallsyms.format(address)}")
    for label, insns in (("before", old), ("after", session.instructions(address, len(data)))):
        for insn in insns:
            text = session.paths.text(insn.address, insn.data)
            context.line(f"  {label:<6}  {insn.address:x}  {insn.data.hex(' ')}  {text}")


def hex_bytes(words: list[str]) -> bytes | None:
    """The bytes that `words` spell in hex; None if they are to be assembled.

    Pairs of digits are bytes, with or without 0x in front of them. A single
    word of letters alone could be an instruction (`fadd`) and is taken as one.
    """
    digits = [word[2:] if word[:2].lower() == "0x" else word for word in words]
    if not all(_BYTE.fullmatch(word) for word in digits):
        return None
    if words == digits and len(words) == 1 and len(words[0]) > 2 and words[0].isalpha():
        return None
    return bytes.fromhex("".join(digits))


def _assembled(context: Context, source: str, address: int) -> bytes:
    try:
        return context.session.assemble(source, address)
    except AssemblyError as error:
        if not re.fullmatch(r"[0-9a-fA-F]+", source):
            raise
        raise UsageMistake(
            f"'{source}' is no instruction; for hex bytes write 0x{source}"
        ) from error


COMMANDS = (
    Command(
        "poke",
        "ADDR|SYMBOL[+OFF] ASM|HEX",
        "write an instruction or bytes into memory",
        poke,
        Argument.FUNCTION,
        "ASM is assembled for that address and may name symbols; HEX is pairs of digits.\n"
        "Every vCPU is told of the new text. ftrace is not: that is the point.",
    ),
)
