"""The state a fault leaves behind, gathered for the port to report on.

What the kernel's die() prints is the architecture's own affair (`Port.oops`);
what it is printed from is the same everywhere: the registers, the code around
pc, and the return addresses found on the stack (backtrace.py).

The state reported on may be arbitrarily broken, so nothing here assumes that
any address can be read.
"""

from __future__ import annotations

from typing import Protocol

from ..arch import Port
from ..crash import Crash, Fault
from .backtrace import backtrace
from .memory import Memory
from .vcpu import Vcpu

TEXT_AROUND = 64
"""Bytes of code kept on either side of pc: no kernel shows more."""

STACK_BYTES = 8192
TRACE_ENTRIES = 32


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

    def name(self, address: int) -> str:
        """`name [module]`, or the bare number."""
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

    def name(self, address: int) -> str:
        """The number."""
        return f"0x{address:x}"


def gather(
    vcpu: Vcpu, memory: Memory, port: Port, symbols: Symbols, fault: Fault, count: int
) -> Crash:
    """The state `vcpu` is in after `fault`, the `count`-th since the machine was started."""
    abi = port.facts.abi
    registers = vcpu.registers.read()
    address, text = _text(memory, registers[abi.pc.name])
    sp = registers[abi.sp.name]
    stack = _stack(memory, sp)
    found = backtrace(vcpu, memory, port, symbols, sp + STACK_BYTES, TRACE_ENTRIES)
    return Crash(
        fault=fault,
        count=count,
        cpu=vcpu.number,
        pid=int(vcpu.local["pid"]),
        registers=registers,
        text=text,
        text_address=address,
        stack=stack,
        trace=tuple(each.address for each in found),
        symbol=symbols.format,
    )


def _stack(memory: Memory, sp: int) -> bytes:
    """The bytes from `sp` up, none where it is not in memory."""
    region = memory.region_at(sp)
    if region is None:
        return b""
    return memory.view(sp, min(STACK_BYTES, region.end - sp)).tobytes()


def _text(memory: Memory, pc: int) -> tuple[int, bytes]:
    """Where the code around `pc` begins, and its bytes; none where pc is not in memory."""
    region = memory.region_at(pc)
    if region is None:
        return pc, b""
    start = max(region.address, pc - TEXT_AROUND)
    return start, memory.view(start, min(region.end, pc + TEXT_AROUND) - start).tobytes()
