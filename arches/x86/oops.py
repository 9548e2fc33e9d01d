"""The report of a fault in the words of the x86 kernel.

What went wrong comes first: `BUG:` and the address for a page fault, which also
says what kind of access it was and whether the page was there, the exception's
name for the rest. Then one line each for the CPU and RIP, the bytes around
RIP, the registers, and the way there.

Sources: Intel SDM volume 3, section 6.15 (names of exceptions, the error code
of #PF); the kernel's Documentation/admin-guide/bug-hunting.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.crash import Access, Crash

CODE_BEFORE = 42
CODE_AFTER = 21
"""Bytes shown on either side of the first one at RIP."""

REGISTERS_A_ROW = 3
PAGE = 4096


def report(crash: Crash) -> tuple[str, ...]:
    """All lines of the oops."""
    return tuple(_lines(crash))


def _lines(crash: Crash) -> Iterator[str]:
    what = _what(crash)
    if len(what) > 1:
        yield from what
    head = "Oops" if len(what) > 1 else what[0]
    yield f"{head}: 0000 [#{crash.count}] SMP"
    yield f"CPU: {crash.cpu} PID: {crash.pid}"
    rip = crash.registers["rip"]
    yield f"RIP: {rip:016x} {crash.symbol(rip)}"
    yield _code(crash, rip)
    shown = [
        f"{name.upper():>3}: {value:016x}"
        for name, value in crash.registers.items()
        if name != "rip"
    ]
    for row in range(0, len(shown), REGISTERS_A_ROW):
        yield " ".join(shown[row : row + REGISTERS_A_ROW])
    yield "Call Trace:"
    for address in crash.trace:
        yield f" {crash.symbol(address)}"
    yield f"---[ end trace of CPU {crash.cpu} ]---"


def _what(crash: Crash) -> tuple[str, ...]:
    """What happened: one line for an exception, three for a page fault."""
    fault, rsp = crash.fault, crash.registers["rsp"]
    if fault.access is Access.ILLEGAL:
        return ("invalid opcode",)
    if fault.access is Access.INTERRUPT:
        return (f"double fault: {fault.detail}",)
    if fault.access is Access.OTHER:
        return (fault.detail or "unhandled exception",)
    why = "permissions violation" if fault.mapped else "not-present page"
    kind = (f"#PF: supervisor {fault.access.value} in kernel mode", f"#PF: {why}")
    if fault.address is None:
        return ("BUG: unable to handle page fault", *kind)
    address = f"{fault.address:016x}"
    if fault.access is Access.WRITE and not fault.mapped and 0 <= rsp - fault.address < PAGE:
        first = f"BUG: stack guard page was hit at {address} (stack is {rsp:016x}..)"
    elif fault.address < PAGE:
        first = f"BUG: kernel NULL pointer dereference, address: {address}"
    else:
        first = f"BUG: unable to handle page fault for address: {address}"
    return (first, *kind)


def _code(crash: Crash, rip: int) -> str:
    """The bytes around `rip`, the one at it in angle brackets."""
    if not crash.text:
        return f"Code: Unable to access opcode bytes at 0x{rip:x}."
    at = rip - crash.text_address
    data = crash.text
    before, after = data[max(0, at - CODE_BEFORE) : at], data[at + 1 : at + 1 + CODE_AFTER]
    shown = [*(f"{byte:02x}" for byte in before), f"<{data[at]:02x}>"]
    return "Code: " + " ".join([*shown, *(f"{byte:02x}" for byte in after)])
