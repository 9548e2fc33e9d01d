"""Commands on guest memory: dump, poke."""

from __future__ import annotations

import re

from ...errors import AssemblyError, NoAssemblerError
from ...session.session import Session
from ...views.toned import Toned
from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    UsageMistake,
    expect,
    number,
    typed_column,
)
from ..text.encoding import code_line

MOST_WORDS = 4096

_BYTE = re.compile(r"(?:[0-9a-fA-F]{2})+")


def dump(context: Context, arguments: Arguments) -> None:
    """Show pointer-sized words and the symbols they point to; stop at unmapped memory."""
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
        what = f"{value:0{2 * size}x}  {name}".rstrip()
        context.line(code_line(f"{address:0{2 * size}x}  ", data.hex(" "), what))


def literal_address(session: Session, text: str) -> int:
    """Return the address of `text`, with a symbol taken literally.

    Other commands take the name of a function for its code, even if a descriptor has that name.
    Raises `UsageError`.
    """
    name, plus, offset = text.strip().partition("+")
    address = session.boot.kallsyms.address(name)
    if address is None or (plus and not offset):
        return session.address_of(text)
    return session.address_of(f"0x{address:x}{plus}{offset}")


def poke(context: Context, arguments: Arguments) -> None:
    """Write bytes, or assemble instructions for the address; show the text before and after."""
    expect(arguments, 2)
    session, boot = context.session, context.boot
    address = session.address_of(arguments[0].text)
    words = arguments[1:]
    data = hex_bytes([word.text for word in words])
    if data is None:
        data = _assembled(context, words, address)
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
            code = code_line(f"{insn.address:x}  ", insn.data.hex(" "), text)
            context.line(Toned(f"  {label:<6}  ", *code.spans))


def hex_bytes(words: list[str]) -> bytes | None:
    """Return the bytes that `words` spell in hex; None if they are assembly.

    Pairs of digits are bytes, with or without a leading 0x. A single word of letters is taken for
    an instruction, such as `fadd`.
    """
    digits = [word[2:] if word[:2].lower() == "0x" else word for word in words]
    if not all(_BYTE.fullmatch(word) for word in digits):
        return None
    if words == digits and len(words) == 1 and len(words[0]) > 2 and words[0].isalpha():
        return None
    return bytes.fromhex("".join(digits))


def _assembled(context: Context, words: Arguments, address: int) -> bytes | None:
    """Assemble `words`; on an error print it with a mark below, and return None."""
    source = " ".join(word.text for word in words)
    try:
        return context.session.assemble(source, address)
    except NoAssemblerError:
        raise
    except AssemblyError as error:
        if re.fullmatch(r"[0-9a-fA-F]+", source):
            raise UsageMistake(
                f"'{source}' is not an instruction; for hex bytes write 0x{source}"
            ) from error
        if error.column is None:
            raise
        context.wrong = typed_column(words, error.column)
        lines = (f"poke: {error.reason}", f"  {source}", f"  {'':{error.column}}^")
        # A character that is not one cell wide, such as a tab, would misplace the mark.
        context.fail("\n".join(re.sub(r"[\0-\x1f\x7f]", " ", line) for line in lines))
        return None


COMMANDS = (
    Command(
        "dump",
        "ADDR|SYMBOL[+OFF] [N]",
        "show N words of memory and what they point to",
        dump,
        Argument.FUNCTION,
        "Each line: address, bytes, value, symbol. A SYMBOL is taken literally. With\n"
        "function descriptors, `dump schedule` shows the descriptor (entry, TOC,\n"
        "environment) and `dump .schedule` the code.",
    ),
    Command(
        "poke",
        "ADDR|SYMBOL[+OFF] ASM|HEX",
        "write an instruction or bytes into memory",
        poke,
        Argument.FUNCTION,
        "ASM is assembled for that address and may name symbols; HEX is pairs of digits.\n"
        "A SYMBOL is the kernel's, if the kernel has it; 'SYMBOL [MODULE]' is a module's,\n"
        "'SYMBOL [tracer]' the tracer's.\n"
        "Every CPU is flushed. ftrace does not learn of the change.",
        changes=Changes.ALWAYS,
    ),
)
