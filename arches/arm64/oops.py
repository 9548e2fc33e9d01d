"""The report of a fault in the words of the arm64 kernel.

`die_kernel_fault()` prints the address that cannot be used and the kind of access,
`mem_abort_decode()` decodes the syndrome register, and `die()` names the event and counts it.
`__show_regs()` prints pstate with its flags as letters (capitals if set), pc and lr as symbols,
sp, and the general registers from x29 down, three in a row. The call trace and five words of
code follow; the word at pc is the last, in round brackets.

The call trace begins with pc and follows the frame records. Each holds the x29 of a caller and
the return address of the function that made the record. If a function has not made its record
yet, only lr names its caller. A function that the graph tracer follows returns to
return_to_handler; the trace shows its real return address instead. A record with return address
0 marks the place where the machine delivered an interrupt: the trace continues with the saved pc
above it, and then with the frames that the saved x29 leads to.

Of the syndrome (ESR_EL1) the report shows only what is certain: the class of the exception, and
whether the access was a write. The machine has no page tables, so there is no level at which a
translation failed, and no number to print after `Oops`.

Illegal instructions arrive as interrupts of the emulator, with its own numbers. This module
says what they mean, because the report depends on it.

Sources: DDI 0487, ESR_EL1 and "Process state, PSTATE"; formats of the messages
as Linux 6.1 prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.crash import Access, Crash
from ...core.facts import Facts, Trap
from . import insn
from .insn import WORD

PAGE = 4096
WIDTH = 8
"""Bytes of a register."""

A_ROW = 3
"""General registers in a row."""

WORDS_BEFORE = 4
"""Number of code words shown before the one at pc."""

FRAMES = 32
"""Largest number of frames shown."""

ABOVE = 512
"""Bytes above an interrupt's first frame that are searched for the saved registers."""

UNDEFINED = "Undefined instruction"
SVC = "Supervisor Call exception"
ALIGNMENT = "Alignment fault"
BREAKPOINT = "Breakpoint Instruction exception"
SMC = "Secure Monitor Call exception"

TRAPS: Mapping[int, Trap] = {
    1: Trap(UNDEFINED, True, 0),
    2: Trap(SVC, False, WORD),
    4: Trap(ALIGNMENT, False, 0),
    7: Trap(BREAKPOINT, False, 0),
    13: Trap(SMC, False, WORD),
}
"""The emulator's interrupt numbers that instructions raise."""

_IL = 1 << 25  # ESR: the instruction has 32 bits

_FLAGS = (("nzcv", 28), ("daif", 6))
"""Letters of flags, and the bit number of the last."""

_FEATURES = (("PAN", 22), ("UAO", 23), ("TCO", 25), ("DIT", 24), ("SSBS", 12))
_BTYPES = ("--", "jc", "-c", "j-")  # 0: no branch by register was last


def report(crash: Crash, facts: Facts) -> tuple[str, ...]:
    """Return all lines of the oops of a port."""
    return tuple(_lines(crash, facts))


def _lines(crash: Crash, facts: Facts) -> Iterator[str]:
    what, death = _what(crash)
    yield from what
    if death:
        yield f"Internal error: {death} [#{crash.count}] SMP"
    yield f"CPU: {crash.cpu} PID: {crash.pid}"
    yield from _registers(crash)
    yield "Call trace:"
    yield from (f" {crash.symbol(address)}" for address in _trace(crash, facts))
    yield _code(crash)
    yield f"---[ end trace {0:016x} ]---" if death else _OVERFLOW


_OVERFLOW = "Kernel panic - not syncing: kernel stack overflow"


def _what(crash: Crash) -> tuple[list[str], str]:
    """Return the lines about the event, and the text for die(), empty for a panic."""
    fault, pc = crash.fault, crash.registers["pc"]
    if fault.access is Access.INTERRUPT:
        return ["Insufficient stack space to handle exception!"], ""
    if pc % WORD and fault.access is not Access.FETCH:
        return [], f"SP/PC alignment exception: {0x22 << 26 | _IL:016x}"
    if fault.access is Access.ILLEGAL:
        return [], f"Oops - Undefined instruction: {_IL:016x}"
    if fault.detail == BREAKPOINT:
        return ["Unexpected kernel BRK exception at EL1"], f"BRK handler: {_brk(crash):016x}"
    if fault.detail == ALIGNMENT:
        syndrome = ["Mem abort info:", "  EC = 0x25: DABT (current EL), IL = 32 bits"]
        first = "Unable to handle kernel paging request"
        return [first, *syndrome, "  FSC = 0x21: alignment fault"], "Oops"
    if fault.access is Access.OTHER:
        return [fault.detail] if fault.detail else [], "Oops - bad mode"
    return _abort(crash), "Oops"


def _abort(crash: Crash) -> list[str]:
    """Return the lines about a failed access, with its decoded syndrome."""
    fault = crash.fault
    fetch, write = fault.access is Access.FETCH, fault.access is Access.WRITE
    if fault.mapped:
        what = {
            Access.READ: "read from unreadable memory",
            Access.WRITE: "write to read-only memory",
            Access.FETCH: "execute from non-executable memory",
        }[fault.access]
    elif fault.address is not None and fault.address < PAGE:
        what = "NULL pointer dereference"
    else:
        what = "paging request"
    where = "" if fault.address is None else f" at virtual address {fault.address:016x}"
    kind = "0x21: IABT" if fetch else "0x25: DABT"
    lines = [
        f"Unable to handle kernel {what}{where}",
        "Mem abort info:",
        f"  EC = {kind} (current EL), IL = 32 bits",
    ]
    return lines if fetch else [*lines, "Data abort info:", f"  CM = 0, WnR = {int(write)}"]


def _brk(crash: Crash) -> int:
    """Return the syndrome of a BRK, which includes the number in the instruction."""
    return 0x3C << 26 | _IL | ((_word_of_code(crash, 0) or 0) >> 5 & 0xFFFF)


def _registers(crash: Crash) -> Iterator[str]:
    """Yield the rows of pstate, pc, lr, sp and the general registers."""
    registers = crash.registers
    yield f"pstate: {registers['pstate']:08x} ({pstate(registers['pstate'])})"
    yield f"pc : {crash.symbol(registers['pc'])}"
    yield f"lr : {crash.symbol(registers['x30'])}"
    yield f"sp : {registers['sp']:016x}"
    for first in range(insn.FP, -1, -A_ROW):
        yield " ".join(
            f"x{number:<2}: {registers[f'x{number}']:016x}"
            for number in range(first, first - A_ROW, -1)
        )


def pstate(value: int) -> str:
    """Return the flags of pstate as the kernel shows them."""
    shown = [
        "".join(
            letter.upper() if value >> last + len(letters) - 1 - row & 1 else letter
            for row, letter in enumerate(letters)
        )
        for letters, last in _FLAGS
    ]
    shown += [("+" if value >> bit & 1 else "-") + name for name, bit in _FEATURES]
    return " ".join([*shown, f"BTYPE={_BTYPES[value >> 10 & 3]}"])


def _trace(crash: Crash, facts: Facts) -> Iterator[int]:
    """Yield pc, and the return address of the function of each frame."""
    yield crash.registers["pc"]
    frame = crash.registers[f"x{insn.FP}"]
    for _ in range(FRAMES):
        up, back = _stack_word(crash, frame), _stack_word(crash, frame + WIDTH)
        if up is None or back is None:
            return
        if back:
            yield crash.returns.get(frame + WIDTH, back)
        else:
            pc = _interrupted(crash, facts, frame, up)
            if pc is None:
                return
            yield pc
        if up <= frame:
            return
        frame = up


def _interrupted(crash: Crash, facts: Facts, frame: int, fp: int) -> int | None:
    """Return the pc that an interrupt saved above its first frame `frame`; x29 was `fp`."""
    names = [register.name for register in facts.abi.pt_regs]
    size = WIDTH * len(names)
    for regs in range(frame + 2 * WIDTH, frame + ABOVE, facts.abi.stack_align):
        sp = _stack_word(crash, regs + WIDTH * names.index("sp"))
        saved = _stack_word(crash, regs + WIDTH * insn.FP)
        if sp is None or saved is None:
            return None
        if saved == fp and 0 <= sp - size - regs < facts.abi.stack_align:
            return _stack_word(crash, regs + WIDTH * names.index("pc"))
    return None


def _stack_word(crash: Crash, address: int) -> int | None:
    """Return a word of the stack, or None if it was not read."""
    at = address - crash.registers["sp"]
    if not 0 <= at <= len(crash.stack) - WIDTH:
        return None
    return int.from_bytes(crash.stack[at : at + WIDTH], "little")


def _code(crash: Crash) -> str:
    """Return the line of code words, up to the one at pc."""
    shown = []
    for number in range(-WORDS_BEFORE, 1):
        word = _word_of_code(crash, number)
        if word is None:
            if number == 0:
                shown.append("bad PC value")
            continue
        shown.append(f"({word:08x})" if number == 0 else f"{word:08x}")
    return "Code: " + " ".join(shown)


def _word_of_code(crash: Crash, number: int) -> int | None:
    """Return the word `number` words after pc, or None if it was not read."""
    at = crash.registers["pc"] + WORD * number - crash.text_address
    if not 0 <= at <= len(crash.text) - WORD:
        return None
    return insn.word_at(crash.text, at)
