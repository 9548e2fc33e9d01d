"""The report of a fault in the words of the PowerPC kernel, 64-bit and 32-bit.

`bad_page_fault()` prints the kind and the address of the access, and `die()` names the signal
that the task gets. `show_regs()` prints NIP, LR and CTR, CR and XER, and the general registers:
four in a row if they have 64 bits, eight if they have 32. Then come NIP and LR as symbols, the
call trace, and sixteen words of code. The word at NIP is the thirteenth, in angle brackets.

The call trace needs no guess: every frame begins with the address of its caller's frame (the
back chain) and holds the LR of the function it called. Only the innermost frame may still hold
the LR of an earlier call; the kernel marks it as unreliable. A function
that the graph tracer follows returns to return_to_handler; its real return address follows in
parentheses. If the chain ends where the machine delivered an interrupt, the trace continues with
the registers that were saved there.

Registers that this machine lacks are left out: MSR, DSISR, and the number of an interrupt's
vector (TRAP).

Illegal instructions arrive as interrupts of the emulator, with its own numbers. This module
says what they mean, because the report depends on it.

Sources: Power ISA, Book III (interrupts and their vectors; DAR, the address of a
data access that failed); the ABIs named in port.py (frames); formats of the
messages as Linux 6.1 prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.crash import Access, Crash
from ...core.facts import Facts, Trap

WORD = 4
PAGE = 4096
GENERAL = 32
WORDS_BEFORE = 12
WORDS_SHOWN = 16
WORDS_A_ROW = 8
ROW_BYTES = 32
"""General registers in one row."""

FRAMES = 32
"""Largest number of frames shown."""

LR_SAVE = {8: 16, 4: 4}
"""Offset at which a function saves LR in its caller's frame, by register size in bytes."""

SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGSEGV = 4, 5, 6, 7, 11

ALIGNMENT = "alignment interrupt"
FLOATING_POINT = "floating-point unavailable interrupt"
VECTOR = "vector unavailable interrupt"
VSX = "VSX unavailable interrupt"

TRAPS: Mapping[int, Trap] = {
    5: Trap(ALIGNMENT, False, WORD),
    6: Trap("program interrupt: trap", False, WORD),
    7: Trap(FLOATING_POINT, False, WORD),
    8: Trap("system call interrupt", False, WORD),
    73: Trap(VECTOR, False, WORD),
    94: Trap(VSX, False, WORD),
    96: Trap("program interrupt: illegal instruction", True, WORD),
}
"""The emulator's interrupt numbers that instructions raise."""

_UNAVAILABLE = {FLOATING_POINT: ("FP", 0x800), VECTOR: ("VMX/Altivec", 0xF20), VSX: ("VSX", 0xF40)}
"""Units that the kernel disables: its name for each, and the vector."""


def report(crash: Crash, facts: Facts) -> tuple[str, ...]:
    """Return all lines of the oops of a port."""
    return tuple(_lines(crash, facts))


def _lines(crash: Crash, facts: Facts) -> Iterator[str]:
    digits = 2 * facts.pointer_size
    nip, lr = crash.registers["nip"], crash.registers["lr"]
    what, death, signal = _what(crash)
    yield from what
    yield f"Oops: {death}, sig: {signal} [#{crash.count}]"
    yield f"BE PAGE_SIZE={PAGE // 1024}K SMP"
    yield f"CPU: {crash.cpu} PID: {crash.pid}"
    yield from _registers(crash, facts.pointer_size)
    yield f"NIP [{nip:0{digits}x}] {crash.symbol(nip)}"
    yield f"LR [{lr:0{digits}x}] {crash.symbol(lr)}"
    yield "Call Trace:"
    yield from _trace(crash, facts)
    yield "Instruction dump:"
    yield from _instructions(crash, nip)
    yield f"---[ end trace {0:016x} ]---"


def _what(crash: Crash) -> tuple[list[str], str, int]:
    """Return the lines about the event, the text for `die()`, and the signal."""
    fault, nip, r1 = crash.fault, crash.registers["nip"], crash.registers["r1"]
    if fault.access is Access.ILLEGAL:
        return [], "Exception in kernel mode", SIGILL
    if fault.access is Access.INTERRUPT:
        first = f"Bad kernel stack pointer {r1:x} at {nip:x}"
        return [first], "Bad kernel stack pointer", SIGABRT
    if fault.detail in _UNAVAILABLE:
        unit, vector = _UNAVAILABLE[fault.detail]
        death = f"Unrecoverable {unit} Unavailable Exception"
        return [f"{death} {vector:x} at {nip:x}"], death, SIGABRT
    where = f"Faulting instruction address: 0x{nip:08x}"
    if fault.detail == ALIGNMENT:
        first = "BUG: Unable to handle kernel unaligned access"
        return [first, where], "Kernel access of bad area", SIGBUS
    if fault.access is Access.OTHER:
        # The kernel prints a line for an unexpected exception, but none for a trap.
        known = any(fault.detail == trap.meaning for trap in TRAPS.values())
        lines = [] if known or not fault.detail else [fault.detail]
        return lines, "Exception in kernel mode", SIGTRAP
    lines = [*(_fetch(crash) if fault.access is Access.FETCH else [_data(crash)]), where]
    if _overran(crash):
        lines.append("Thread overran stack, or stack corrupted")
    return lines, "Kernel access of bad area", SIGSEGV


def _data(crash: Crash) -> str:
    """Return the line about a failed load or store."""
    fault = crash.fault
    kind = "write" if fault.access is Access.WRITE else "read"
    if fault.address is None:
        return f"BUG: Unable to handle kernel data access on {kind}"
    null = fault.address < PAGE
    what = "Kernel NULL pointer dereference" if null else "Unable to handle kernel data access"
    return f"BUG: {what} on {kind} at 0x{fault.address:08x}"


def _fetch(crash: Crash) -> list[str]:
    """Return the lines about a jump to memory without code."""
    nip = crash.registers["nip"]
    null = " (NULL pointer?)" if nip < PAGE else ""
    first = [f"kernel tried to execute exec-protected page ({nip:x})"] if crash.fault.mapped else []
    return [*first, f"BUG: Unable to handle kernel instruction fetch{null}"]


def _overran(crash: Crash) -> bool:
    """Return whether a store hit the unmapped memory right below the stack."""
    fault = crash.fault
    if fault.access is not Access.WRITE or fault.mapped or fault.address is None:
        return False
    return 0 <= crash.registers["r1"] - fault.address < PAGE


def _registers(crash: Crash, width: int) -> Iterator[str]:
    """Yield NIP, LR, CTR; CR, XER; the address of a failed access; the general registers."""
    registers, fault, digits = crash.registers, crash.fault, 2 * width
    named = {"NIP:  ": "nip", "LR: ": "lr", "CTR: ": "ctr"}
    yield " ".join(f"{label}{registers[name]:0{digits}x}" for label, name in named.items())
    yield f"CR: {registers['cr']:08x}  XER: {registers['xer']:08x}"
    if fault.access in (Access.READ, Access.WRITE) and fault.address is not None:
        yield f"DAR: {fault.address:0{digits}x}"
    step = ROW_BYTES // width
    for row in range(0, GENERAL, step):
        values = (f"{registers[f'r{number}']:0{digits}x}" for number in range(row, row + step))
        yield f"GPR{row:02}: " + " ".join(values)


def _trace(crash: Crash, facts: Facts) -> Iterator[str]:
    """Yield the frames from r1 up, each with the return address of the function it called."""
    width = facts.pointer_size
    sp, first = crash.registers["r1"], True
    for _ in range(FRAMES):
        chain, link = _word(crash, sp, width), _word(crash, sp + LR_SAVE[width], width)
        if chain is None or link is None:
            return
        real = crash.returns.get(sp + LR_SAVE[width])
        if real is not None or link in crash.trace or (link and not first):
            mark = "" if real is None else f" ({crash.symbol(real)})"
            mark += " (unreliable)" if first else ""
            yield f"[{sp:0{2 * width}x}] [{link:0{2 * width}x}] {crash.symbol(link)}{mark}"
        first = False
        if chain > sp:
            sp = chain
            continue
        saved = None if chain else _interrupted(crash, facts, sp)
        if saved is None:
            return
        yield f"--- interrupt: at {crash.symbol(saved['nip'])}"
        yield f"    LR = {crash.symbol(saved['lr'])}"
        sp, first = saved["r1"], True


def _interrupted(crash: Crash, facts: Facts, frame: int) -> dict[str, int] | None:
    """Return the registers an interrupt saved above its first frame, if the frame is one."""
    abi, width = facts.abi, facts.pointer_size
    regs = frame + abi.call_frame
    regs += -regs % abi.stack_align
    size = width * len(abi.pt_regs)
    saved = {}
    for row, register in enumerate(abi.pt_regs):
        value = _word(crash, regs + width * row, width)
        if value is None:
            return None
        saved[register.name] = value
    gap = saved["r1"] - abi.red_zone - size - regs
    return saved if 0 <= gap < abi.stack_align else None


def _word(crash: Crash, address: int, width: int) -> int | None:
    """Return a word of the stack, or None if it was not read."""
    at = address - crash.registers["r1"]
    if not 0 <= at <= len(crash.stack) - width:
        return None
    return int.from_bytes(crash.stack[at : at + width], "big")


def _instructions(crash: Crash, nip: int) -> Iterator[str]:
    """Yield rows of the code words around `nip`, with XXXXXXXX for words that were not read."""
    words = []
    for number in range(-WORDS_BEFORE, WORDS_SHOWN - WORDS_BEFORE):
        at = nip + WORD * number - crash.text_address
        word = crash.text[at : at + WORD].hex() if at >= 0 else ""
        shown = word if len(word) == 2 * WORD else "X" * 2 * WORD
        words.append(f"<{shown}>" if number == 0 and shown == word else shown)
    for row in range(0, WORDS_SHOWN, WORDS_A_ROW):
        yield " ".join(words[row : row + WORDS_A_ROW])
