"""The state a fault leaves behind, gathered for the port to report on.

What the kernel's die() prints is the architecture's own affair (`Port.oops`);
what it is printed from is the same everywhere: the registers, the code around
pc, and the return addresses found on the stack. A word of the stack counts as a
return address when it lies in a known function and a call stands right in
front of it; like the kernel's scan without frame pointers, it may name a call
that has already returned. Where calls leave their return address in a
register, what that register holds comes first.

The state reported on may be arbitrarily broken, so nothing here assumes that
any address can be read.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..arch import Port
from ..crash import Crash, Fault
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
    found = _return_addresses(stack[-sp % port.facts.pointer_size :], memory, port, symbols)
    link = vcpu.registers.link
    if link is not None and found[:1] != [link] and symbols.lookup(link) is not None:
        found = [link, *found]  # not yet saved by the function it belongs to
    return Crash(
        fault=fault,
        count=count,
        cpu=vcpu.number,
        pid=int(vcpu.local["pid"]),
        registers=registers,
        text=text,
        text_address=address,
        stack=stack,
        trace=tuple(found),
        symbol=symbols.format,
    )


def _return_addresses(stack: bytes, memory: Memory, port: Port, symbols: Symbols) -> list[int]:
    """Words of `stack` that are return addresses, in order, at most `TRACE_ENTRIES`."""
    size = port.facts.pointer_size
    order = "<" if port.facts.byteorder == "little" else ">"
    words = np.frombuffer(stack[: len(stack) // size * size], f"{order}u{size}").astype(np.uint64)
    before = port.facts.max_insn_size
    texts, readable = memory.gather(words - np.uint64(before), before)
    found: list[int] = []
    for row in np.flatnonzero(readable).tolist():
        address = int(words[row])
        if port.is_return_address(texts[row].tobytes()) and symbols.lookup(address - 1):
            found.append(address)
            if len(found) == TRACE_ENTRIES:
                break
    return found


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
