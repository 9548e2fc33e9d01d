"""The report of a fault in the words of the x86 kernel, 64-bit and 32-bit.

The first lines name the event. For a page fault they are `BUG:` with the address, the kind of
access and whether the page was present; for other exceptions, the name. Then come the CPU, its
pc (RIP or EIP), the bytes around pc, the registers, and the call trace. 64-bit registers are
printed three in a row in the order of pt_regs, 32-bit ones four in a row with the flags last.
The 32-bit kernel prints pc as a symbol only. A `?` precedes each function of the call trace, as
in a kernel without frame pointers: its return address was found on the stack and may belong to
a call that has already returned.

Sources: Intel SDM volume 3, section 6.15 (names of exceptions, the error code
of #PF); the kernel's Documentation/admin-guide/bug-hunting.rst; formats of the
messages as Linux 6.1 prints them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.crash import Access, Crash
from ...core.facts import Facts

CODE_BEFORE = 42
CODE_AFTER = 21
"""Number of bytes shown before and after the byte at pc."""

REGISTERS_A_ROW = 3
ROWS32 = (("eax", "ebx", "ecx", "edx"), ("esi", "edi", "ebp", "esp"), ("eflags",))
PAGE = 4096

NX_PROTECTED = "kernel tried to execute NX-protected page - exploit attempt? (uid: 0)"

_PRESENT, _WRITE, _FETCH = 1, 2, 16
"""Bits of the error code of #PF."""


def report(crash: Crash, facts: Facts) -> tuple[str, ...]:
    """Return all lines of the oops of a port."""
    return tuple(_lines(crash, facts))


def _lines(crash: Crash, facts: Facts) -> Iterator[str]:
    what = _what(crash, facts)
    paging = len(what) > 1
    if paging:
        yield from what
    head = f"Oops: {_error_code(crash):04x}" if paging else f"{what[0]}: 0000"
    yield f"{head} [#{crash.count}] SMP"
    yield f"CPU: {crash.cpu} PID: {crash.pid}"
    pc = crash.registers[facts.abi.pc.name]
    yield f"RIP: {pc:016x} {crash.symbol(pc)}" if _wide(facts) else f"EIP: {crash.symbol(pc)}"
    yield _code(crash, pc, facts)
    digits = 2 * facts.pointer_size
    for row in _rows(facts):
        yield " ".join(f"{name.upper():>3}: {crash.registers[name]:0{digits}x}" for name in row)
    yield "Call Trace:"
    for address in crash.trace:
        yield f" ? {crash.symbol(address)}"
    yield f"---[ end trace {0:016x} ]---"


def _error_code(crash: Crash) -> int:
    """Return the error code of a page fault, as far as it follows from the access."""
    fault = crash.fault
    code = _PRESENT if fault.mapped else 0
    return code | {Access.WRITE: _WRITE, Access.FETCH: _FETCH}.get(fault.access, 0)


def _wide(facts: Facts) -> bool:
    return facts.pointer_size == 8


def _rows(facts: Facts) -> tuple[tuple[str, ...], ...]:
    """Return the names of the registers of each row; pc has a line of its own."""
    if not _wide(facts):
        return ROWS32
    names = tuple(each.name for each in facts.abi.pt_regs if each != facts.abi.pc)
    starts = range(0, len(names), REGISTERS_A_ROW)
    return tuple(names[start : start + REGISTERS_A_ROW] for start in starts)


def _what(crash: Crash, facts: Facts) -> tuple[str, ...]:
    """Return the lines about the event: one for an exception, three or four for a page fault."""
    fault, sp, digits = crash.fault, crash.registers[facts.abi.sp.name], 2 * facts.pointer_size
    if fault.access is Access.ILLEGAL:
        return ("invalid opcode",)
    if fault.access is Access.INTERRUPT:
        return (f"double fault: {fault.detail}",)
    if fault.access is Access.OTHER:
        return (fault.detail or "unhandled exception",)
    why = "permissions violation" if fault.mapped else "not-present page"
    kind = (
        f"#PF: supervisor {fault.access.value} in kernel mode",
        f"#PF: error_code(0x{_error_code(crash):04x}) - {why}",
    )
    if fault.address is None:
        return ("BUG: unable to handle page fault", *kind)
    address = f"{fault.address:0{digits}x}"
    if fault.access is Access.WRITE and not fault.mapped and 0 <= sp - fault.address < PAGE:
        first = f"BUG: stack guard page was hit at {address} (stack is {sp:0{digits}x}..)"
    elif fault.address < PAGE:
        first = f"BUG: kernel NULL pointer dereference, address: {address}"
    else:
        first = f"BUG: unable to handle page fault for address: {address}"
    if fault.access is Access.FETCH and fault.mapped:
        return (NX_PROTECTED, first, *kind)
    return (first, *kind)


def _code(crash: Crash, pc: int, facts: Facts) -> str:
    """Return the bytes around `pc`, the one at `pc` in angle brackets, or why there are none."""
    if not crash.text:
        first = (pc - CODE_BEFORE) % (1 << 8 * facts.pointer_size)
        return f"Code: Unable to access opcode bytes at 0x{first:x}."
    at = pc - crash.text_address
    data = crash.text
    before, after = data[max(0, at - CODE_BEFORE) : at], data[at + 1 : at + 1 + CODE_AFTER]
    shown = [*(f"{byte:02x}" for byte in before), f"<{data[at]:02x}>"]
    return "Code: " + " ".join([*shown, *(f"{byte:02x}" for byte in after)])
