"""The report of a fault: what the kernel's die() prints, from what the machine knows.

One line says what happened, then come the CPU, pc with its symbol, the
registers, the bytes around pc and the return addresses found on the stack. A
word of the stack counts as a return address when it lies in a known function
and a call stands right in front of it; like the kernel's scan without frame
pointers, it may name a call that has already returned.

The state reported on may be arbitrarily broken, so nothing here assumes that
any address can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..arch import Port
from ..errors import MemoryFault
from .faultwatch import Access, Fault
from .memory import PAGE_SIZE, Memory
from .vcpu import Vcpu

CODE_BEFORE = 42
CODE_AFTER = 21
"""Bytes shown around pc, as `OPCODE_BUFSIZE` in arch-specific dumpstack code."""

STACK_BYTES = 8192
TRACE_ENTRIES = 32
REGISTERS_A_ROW = 3


class Symbols(Protocol):
    """Names of addresses, as the session's Kallsyms gives them."""

    def address(self, name: str) -> int | None:
        """Where `name` is, or None."""
        ...

    def lookup(self, address: int) -> object | None:
        """Something for an address that a symbol covers, else None."""
        ...

    def format(self, address: int) -> str:
        """`name+0x5/0x80 [module]`, or the bare number."""
        ...


class NoSymbols:
    """Nothing is known."""

    def address(self, name: str) -> int | None:
        """None."""
        return None

    def lookup(self, address: int) -> object | None:
        """None."""
        return None

    def format(self, address: int) -> str:
        """The number."""
        return f"0x{address:x}"


def describe(fault: Fault, sp: int, width: int) -> tuple[str, ...]:
    """The lines that say what happened; `width` is that of an address in hex digits."""
    if fault.access is Access.ILLEGAL:
        return ("invalid opcode",)
    if fault.access is Access.OTHER:
        return (fault.detail or "unhandled exception",)
    why = "permissions violation" if fault.mapped else "not-present page"
    what = (f"#PF: supervisor {fault.access.value} in kernel mode", f"#PF: {why}")
    if fault.address is None:
        return ("BUG: unable to handle page fault", *what)
    address = f"{fault.address:0{width}x}"
    if fault.access is Access.WRITE and not fault.mapped and 0 <= sp - fault.address < PAGE_SIZE:
        first = f"BUG: stack guard page was hit at {address} (stack is {sp:0{width}x}..)"
    elif fault.address < PAGE_SIZE:
        first = f"BUG: kernel NULL pointer dereference, address: {address}"
    else:
        first = f"BUG: unable to handle page fault for address: {address}"
    return (first, *what)


def report(
    vcpu: Vcpu,
    memory: Memory,
    port: Port,
    symbols: Symbols,
    what: Sequence[str],
    count: int,
) -> tuple[str, ...]:
    """All lines of oops number `count` of vCPU `vcpu`; `what` says what happened."""
    abi = port.facts.abi
    width = 2 * port.facts.pointer_size
    values = vcpu.registers.read()
    pc, sp = values[abi.pc.name], values[abi.sp.name]
    lines = list(what) if len(what) > 1 else []
    head = "Oops" if lines else what[0]
    lines.append(f"{head}: 0000 [#{count}] SMP")
    lines.append(f"CPU: {vcpu.number} PID: {int(vcpu.local['pid'])}")
    lines.append(f"{abi.pc.name.upper()}: {pc:0{width}x} {symbols.format(pc)}")
    lines.append(_code(memory, pc))
    shown = [
        f"{name.upper():>3}: {value:0{width}x}"
        for name, value in values.items()
        if name != abi.pc.name
    ]
    rows = range(0, len(shown), REGISTERS_A_ROW)
    lines.extend(" ".join(shown[row : row + REGISTERS_A_ROW]) for row in rows)
    lines.append("Call Trace:")
    found = call_trace(memory, port, symbols, sp)
    link = vcpu.registers.link
    if link is not None and symbols.lookup(link) is not None:
        found = [link, *found]
    lines.extend(f" {symbols.format(address)}" for address in found)
    lines.append(f"---[ end trace of CPU {vcpu.number} ]---")
    return tuple(lines)


def call_trace(memory: Memory, port: Port, symbols: Symbols, sp: int) -> list[int]:
    """Return addresses on the stack from `sp` up, at most `TRACE_ENTRIES`."""
    region = memory.region_at(sp)
    if region is None:
        return []
    size = port.facts.pointer_size
    sp += -sp % size
    words = memory.view(sp, min(STACK_BYTES, (region.end - sp) // size * size))
    order = "<" if port.facts.byteorder == "little" else ">"
    candidates = np.frombuffer(words.tobytes(), f"{order}u{size}").astype(np.uint64)
    before = port.facts.max_insn_size
    texts, readable = memory.gather(candidates - np.uint64(before), before)
    found: list[int] = []
    for row in np.flatnonzero(readable).tolist():
        address = int(candidates[row])
        if port.is_return_address(texts[row].tobytes()) and symbols.lookup(address - 1):
            found.append(address)
            if len(found) == TRACE_ENTRIES:
                break
    return found


def _code(memory: Memory, pc: int) -> str:
    """The bytes around pc, the one at pc in angle brackets."""
    region = memory.region_at(pc)
    if region is None:
        return f"Code: Unable to access opcode bytes at 0x{pc:x}."
    start = max(region.address, pc - CODE_BEFORE)
    try:
        data = memory.read(start, min(region.end, pc + CODE_AFTER + 1) - start)
    except MemoryFault:
        return f"Code: Unable to access opcode bytes at 0x{pc:x}."
    shown = [f"<{byte:02x}>" if start + at == pc else f"{byte:02x}" for at, byte in enumerate(data)]
    return "Code: " + " ".join(shown)
