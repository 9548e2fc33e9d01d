"""The state of a vCPU after a fault, gathered for the port's report.

What the kernel's die() prints is up to the architecture (`Port.oops`). The data it prints is
the same everywhere: the registers, the code around pc, and the return addresses on the stack
(backtrace.py).

This state may be arbitrarily broken, so nothing here assumes that any address can be read.
"""

from __future__ import annotations

from ..arch import Port
from ..crash import Crash, Fault
from .backtrace import backtrace, graph_ret_addrs
from .memory import Memory
from .symbols import Symbols
from .vcpu import Vcpu

TEXT_AROUND = 64
"""Bytes of code kept before and after pc; no kernel shows more."""

STACK_BYTES = 8192
TRACE_ENTRIES = 32


def gather(
    vcpu: Vcpu, memory: Memory, port: Port, symbols: Symbols, fault: Fault, count: int
) -> Crash:
    """Return the state of `vcpu` after `fault`, the `count`-th oops of the machine."""
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
        returns=graph_ret_addrs(vcpu, memory, port, symbols, sp + STACK_BYTES),
    )


def _stack(memory: Memory, sp: int) -> bytes:
    """Return the bytes from `sp` up, or none if `sp` is not mapped."""
    region = memory.region_at(sp)
    if region is None:
        return b""
    return memory.view(sp, min(STACK_BYTES, region.end - sp)).tobytes()


def _text(memory: Memory, pc: int) -> tuple[int, bytes]:
    """Return the address and the bytes of the code around `pc`; no bytes if it is not mapped."""
    part = memory.mapped_at(pc)
    if part is None:
        return pc, b""
    start = max(part[0], pc - TEXT_AROUND)
    return start, memory.read(start, min(part[1], pc + TEXT_AROUND) - start)
