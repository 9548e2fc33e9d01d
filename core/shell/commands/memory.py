"""Guest memory by hand: dump, poke."""

from __future__ import annotations

import re

from ...errors import AssemblyError
from ...session import Session
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect, number

MOST_WORDS = 4096

_BYTE = re.compile(r"(?:[0-9a-fA-F]{2})+")


def dump(context: Context, arguments: Arguments) -> None:
    """Show words of a pointer's size, and what each points to, up to the first not mapped."""
    expect(arguments, 1, 2)
    session, boot = context.session, context.boot
    count = number(arguments[1].text, "N", 1) if len(arguments) > 1 else 4
    if count > MOST_WORDS:
        raise UsageMistake(f"N must be at most {MOST_WORDS}, not {count}")
    facts, memory, kallsyms = session.port.facts, boot.machine.memory, boot.kallsyms
    size = facts.pointer_size
    start = literal_address(session, arguments[0].text)
    tocs = boot.paths.tocs()
    for address in range(start, start + count * size, size):
        data = memory.read(address, size)
        value = memory.read_int(address, size)
        known = kallsyms.lookup(value) is not None
        name = tocs.get(value) or (kallsyms.format(value) if known else "")
        line = f"{address:0{2 * size}x}  {data.hex(' ')}  {value:0{2 * size}x}  {name}"
        context.line(line.rstrip())


def literal_address(session: Session, text: str) -> int:
    """The address `text` means, where a symbol is the one of that very name.

    Elsewhere the name of a function means its code, whatever has its plain name.
    Raises `UsageError`.
    """
    name, plus, offset = text.strip().partition("+")
    address = session.boot.kallsyms.address(name)
    if address is None or (plus and not offset):
        return session.address_of(text)
    return session.address_of(f"0x{address:x}{plus}{offset}")


def poke(context: Context, arguments: Arguments) -> None:
    """Write bytes, or an instruction assembled for the place, and show what was there."""
    expect(arguments, 2)
    session, boot = context.session, context.boot
    address = session.address_of(arguments[0].text)
    words = [word.text for word in arguments[1:]]
    data = hex_bytes(words)
    if data is None:
        data = _assembled(context, " ".join(words), address)
        if data is None:
            return
    if not data:
        raise UsageMistake("nothing to write")
    old = session.instructions(address, len(data))
    session.poke(address, data)
    context.line(f"{address:x} {boot.kallsyms.format(address)}")
    for label, insns in (("before", old), ("after", session.instructions(address, len(data)))):
        for insn in insns:
            text = boot.paths.text(insn.address, insn.data)
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


def _assembled(context: Context, source: str, address: int) -> bytes | None:
    """The bytes of `source`; None after saying what is wrong with it, with a mark below."""
    try:
        return context.session.assemble(source, address)
    except AssemblyError as error:
        if re.fullmatch(r"[0-9a-fA-F]+", source):
            raise UsageMistake(
                f"'{source}' is no instruction; for hex bytes write 0x{source}"
            ) from error
        if error.column is None:
            raise
        context.wrong = source, error.column
        lines = (f"poke: {error.reason}", f"  {source}", f"  {'':{error.column}}^")
        # What has no cell of its own, such as a tab, would move the mark.
        context.fail("\n".join(re.sub(r"[\0-\x1f\x7f]", " ", line) for line in lines))
        return None


COMMANDS = (
    Command(
        "dump",
        "ADDR|SYMBOL[+OFF] [N]",
        "show N words of memory and what they point to",
        dump,
        Argument.FUNCTION,
        "A line each: address, bytes, value, symbol. A SYMBOL is taken literally: where\n"
        "functions have descriptors, `dump schedule` shows the descriptor (entry, TOC,\n"
        "environment) and `dump .schedule` the code.",
    ),
    Command(
        "poke",
        "ADDR|SYMBOL[+OFF] ASM|HEX",
        "write an instruction or bytes into memory",
        poke,
        Argument.FUNCTION,
        "ASM is assembled for that address and may name symbols; HEX is pairs of digits.\n"
        "Every vCPU is told of the new text. ftrace is not: that is the point.",
        changes=True,
    ),
)
