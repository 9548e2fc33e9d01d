"""The report of a fault in the words of the MIPS kernel, 32-bit and 64-bit.

`do_page_fault()` prints the address that cannot be used, with epc and ra; `die()` names the
event and counts it. `show_registers()` prints the general registers, four in a row, without k0
and k1, which the kernel keeps for itself; Hi and Lo; epc and ra as symbols; and BadVA, the
address of the failed access. Then come the words of the stack to the end of its page, the call
trace, and nine words of code. The word at epc is the fourth, in angle brackets.

Frames are not chained. The first return address is in ra; the rest of the call trace is a
guess, made of the words on the stack that could be return addresses.

Registers that this machine lacks are left out: Status, Cause, PrId.

Illegal instructions arrive as interrupts of the emulator, with its own numbers. This module
says what they mean, because the report depends on it.

Sources: MIPS Architecture For Programmers, Volume III, "Exceptions" (their names;
BadVAddr, EPC); formats of the messages as Linux 6.1 prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.crash import Access, Crash
from ...core.facts import Facts, Trap
from .insn import WORD, word_at

PAGE = 4096
GENERAL = 32
A_ROW = 4
"""General registers in a row."""

STACK_WORDS = 40
ROW_DIGITS = 64
"""Number of hexadecimal digits in one row of the stack."""

WORDS_BEFORE = 3
WORDS_SHOWN = 9

ADDRESS_LOAD = "Address Error exception (load or fetch)"
ADDRESS_STORE = "Address Error exception (store)"
SYSTEM_CALL = "System Call exception"
BREAK = "Breakpoint exception"
UNUSABLE = "Coprocessor Unusable exception"
RESERVED = "Reserved Instruction exception"
OVERFLOW = "Integer Overflow exception"
TRAP = "Trap exception"
FLOATING_POINT = "Floating Point exception"

TRAPS: Mapping[int, Trap] = {
    12: Trap(ADDRESS_LOAD, False, None),
    13: Trap(ADDRESS_STORE, False, None),
    17: Trap(SYSTEM_CALL, False, WORD),
    18: Trap(BREAK, False, None),
    19: Trap(UNUSABLE, False, None),
    20: Trap(RESERVED, True, None),
    21: Trap(OVERFLOW, False, None),
    22: Trap(TRAP, False, None),
    23: Trap(FLOATING_POINT, False, None),
}
"""The emulator's interrupt numbers that instructions raise."""

_DEATHS = {
    ADDRESS_LOAD: "Unhandled kernel unaligned access",
    ADDRESS_STORE: "Unhandled kernel unaligned access",
    BREAK: "Break instruction in kernel code",
    UNUSABLE: "do_cpu invoked from kernel context!",
    OVERFLOW: "Integer overflow",
    TRAP: "Trap instruction in kernel code",
    FLOATING_POINT: "FP exception in kernel code",
}
"""Texts for `die()`, by exception."""


def report(crash: Crash, facts: Facts) -> tuple[str, ...]:
    """Return all lines of the oops of a port."""
    return tuple(_lines(crash, facts))


def _lines(crash: Crash, facts: Facts) -> Iterator[str]:
    digits = 2 * facts.pointer_size
    fault, epc, ra = crash.fault, crash.registers["pc"], crash.registers["ra"]
    access = fault.access in (Access.READ, Access.WRITE, Access.FETCH)
    address = "" if fault.address is None else f"{fault.address:0{digits}x}"
    if access:
        yield (
            f"CPU {crash.cpu} Unable to handle kernel paging request at virtual address "
            f"{address or '?'}, epc == {epc:0{digits}x}, ra == {ra:0{digits}x}"
        )
    yield f"{'Oops' if access else _death(crash)}[#{crash.count}]:"
    yield f"CPU: {crash.cpu} PID: {crash.pid}"
    yield from _registers(crash, facts)
    yield f"epc   : {epc:0{digits}x} {crash.symbol(epc)}"
    yield f"ra    : {ra:0{digits}x} {crash.symbol(ra)}"
    if address:
        yield f"BadVA : {address}"
    yield from _stack(crash, facts)
    yield "Call Trace:"
    for place in [*([epc] if crash.text else []), *crash.trace]:
        yield f"[<{place:0{digits}x}>] {crash.symbol(place)}"
    yield _code(crash, epc, facts.byteorder)
    yield f"---[ end trace {0:016x} ]---"


def _death(crash: Crash) -> str:
    """Return the text for `die()`, if the fault is not a failed access."""
    fault = crash.fault
    if fault.access is Access.ILLEGAL:
        return "Reserved instruction in kernel code"
    return _DEATHS.get(fault.detail) or fault.detail or fault.access.value


def _registers(crash: Crash, facts: Facts) -> Iterator[str]:
    """Yield the rows of the general registers, Hi and Lo."""
    digits = 2 * facts.pointer_size
    values = [f"{crash.registers[each.name]:0{digits}x}" for each in facts.abi.pt_regs[:GENERAL]]
    values[0] = "0" * digits
    values[26:28] = [" " * digits] * 2
    for row in range(0, GENERAL, A_ROW):
        yield f"${row:2}   : {' '.join(values[row : row + A_ROW])}".rstrip()
    yield f"Hi    : {crash.registers['hi']:0{digits}x}"
    yield f"Lo    : {crash.registers['lo']:0{digits}x}"


def _stack(crash: Crash, facts: Facts) -> Iterator[str]:
    """Yield rows of words from sp to the end of its page, as far as they were read."""
    width, a_row = facts.pointer_size, ROW_DIGITS // (2 * facts.pointer_size)
    order = "little" if facts.byteorder == "little" else "big"
    words: list[str] = []
    for at in range(0, -crash.registers["sp"] % PAGE // width * width, width):
        raw = crash.stack[at : at + width]
        if len(words) == STACK_WORDS or len(raw) < width:
            words.append("..." if len(raw) == width else "(Bad stack address)")
            break
        value = int.from_bytes(raw, "little" if order == "little" else "big")
        words.append(f"{value:0{2 * width}x}")
    for row in range(0, max(len(words), 1), a_row):
        yield f"{'       ' if row else 'Stack :'} {' '.join(words[row : row + a_row])}".rstrip()


def _code(crash: Crash, epc: int, order: str) -> str:
    """Return the line of code words around `epc`, up to the first that cannot be read."""
    line = "Code:"
    for number in range(-WORDS_BEFORE, WORDS_SHOWN - WORDS_BEFORE):
        at = epc + WORD * number - crash.text_address
        raw = crash.text[at : at + WORD] if at >= 0 else b""
        if len(raw) < WORD:
            return f"{line.rstrip()} (Bad address in epc)"
        value = word_at(raw, order)
        line += f" {value:08x} " if number else f"<{value:08x}>"
    return line.rstrip()
