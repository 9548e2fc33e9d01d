"""Why a function does not run in a kernel that has not booted.

A call that faults or does not end is done again from the same state, with its last reads of
memory on record. They tell what was missing: a pointer that the boot sets and that is still
NULL, or the word that a loop waits for. Then the machine is put back to where the call ended.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DynftraceError, GuestError, GuestHang, GuestOops, MemoryFault
from ..kernel.fit import TRACER_SIZE
from ..kernel.placed import END, LOAD, START
from ..machine.vcpu import Read

if TYPE_CHECKING:
    from .boot import Boot

LIMIT_NS = 1_000_000_000
"""Longest call, in virtual ns: nothing that it could wait for happens by itself."""

WATCHED_NS = 100_000
"""Virtual ns before the end in which reads are recorded."""

NEAR = 4096
"""Most bytes from a pointer to what is accessed through it."""

_PLACE, _WORD = re.compile(r"[\[(]([^\])]*)[\])]"), re.compile(r"[\w$]+")
"""A memory operand, and the words in it."""

LAST = 20_000
"""Most reads that are kept."""


@dataclass(slots=True)
class _Ended:
    """The vCPU where a call ended."""

    ticks: int
    pc: int = 0
    address: int | None = None


def call(boot: Boot, pointer: int, arguments: Sequence[int]) -> int:
    """Call the function at `pointer` and return its result.

    Raises what `Requests.call` raises. The message of a `GuestOops` or `GuestHang` begins with
    the reason, if one was found.
    """
    machine = boot.machine
    before = machine.save()
    try:
        return machine.requests.call(pointer, arguments, limit_ns=LIMIT_NS)
    except (GuestOops, GuestHang) as error:
        ended = _Ended(machine.vcpus[0].ticks)
        if isinstance(error, GuestOops):
            ended.pc, ended.address = error.pc, machine.fault_address
        after = machine.save()
        try:
            before()
            reads = _reads(boot, pointer, arguments, ended)
        finally:
            after()
        reason = _hang(boot, reads) if isinstance(error, GuestHang) else _fault(boot, reads, ended)
        if not reason:
            raise
        if isinstance(error, GuestOops):
            raise GuestOops(
                f"{reason}: {error}", cpu=error.cpu, pc=error.pc, report=error.report
            ) from error
        raise GuestError(f"{reason}: {error}") from error


def _reads(boot: Boot, pointer: int, arguments: Sequence[int], ended: _Ended) -> list[Read]:
    """Repeat the call and return its last reads of memory, in order."""
    vcpu, scheduler = boot.machine.vcpus[0], boot.machine.scheduler
    found: deque[Read] = deque(maxlen=LAST)
    limit = ended.ticks - vcpu.ticks
    since = max(ended.ticks - WATCHED_NS, 0)
    with vcpu.recording(found, since), scheduler.interruptible(), suppress(DynftraceError):
        boot.machine.requests.call(pointer, arguments, limit_ns=limit)
    return list(found)


def _fault(boot: Boot, reads: list[Read], ended: _Ended) -> str:
    """Return what a fault was about; empty if that is not known."""
    where = boot.kallsyms.format(ended.pc)
    text = _text(boot, ended.pc)
    if ended.address is None:
        return f"{where} cannot run here: `{text}`" if text else ""
    size = boot.port.facts.pointer_size
    stack, tracer = boot.port.facts.map.host_stack, boot.port.facts.map.tracer
    for read in reversed(reads):
        if tracer <= read.pc < tracer + TRACER_SIZE:
            continue
        if read.size != size or not 0 <= ended.address - read.value < NEAR:
            continue
        if read.value >= NEAR or stack <= read.address < stack + (1 << 20):
            continue
        target = _text(boot, read.pc).partition(" ")[2].partition(",")[0].strip()
        if target and any(target in _WORD.findall(part) for part in _PLACE.findall(text)):
            return (
                f"{where} uses the pointer in {_name(boot, read.address)}, which is still NULL: "
                "the kernel has not booted"
            )
    if ended.address < NEAR:
        return f"{where} uses a NULL pointer, which it was given or which the boot sets"
    region = boot.machine.memory.region_at(ended.address)
    if region is not None:
        return f"{where} cannot use {_name(boot, ended.address)}: its memory does not allow that"
    return f"{where} uses memory that the boot maps, or none"


def _hang(boot: Boot, reads: list[Read]) -> str:
    """Return what a call without an end reads again and again; empty if that is not known."""
    stack = boot.port.facts.map.host_stack
    tracer = boot.port.facts.map.tracer
    data = [
        read
        for read in reads
        if not stack <= read.address < stack + (1 << 20)
        and not tracer <= read.pc < tracer + TRACER_SIZE
    ]
    if not data:
        return ""
    (address, pc), times = Counter((read.address, read.pc) for read in data).most_common(1)[0]
    if times < 3:
        return ""
    return (
        f"{boot.kallsyms.format(pc)} waits for {_name(boot, address)} to change, which nothing "
        "does in a kernel that has not booted"
    )


def _text(boot: Boot, pc: int) -> str:
    """Return the instruction at `pc`; empty if it is not in memory."""
    try:
        insn = boot.instructions(pc, 1)[0]
    except (MemoryFault, IndexError):
        return ""
    return f"{insn.mnemonic} {insn.operands}".strip()


def _name(boot: Boot, address: int) -> str:
    """Return the symbol of data at `address`, or the address."""
    symbol = boot.kallsyms.lookup(address)
    if symbol is None or symbol.function:
        return _per_cpu(boot, address) or f"the word at {address:#x}"
    offset = address - symbol.address
    name = f"{symbol.name}+{offset:#x}" if offset else symbol.name
    return name if symbol.module is None else f"{name} [{symbol.module}]"


def _per_cpu(boot: Boot, address: int) -> str:
    """Return the per-CPU variable of CPU 0 at `address`; "" if there is no such variable.

    Its symbol is an offset into the per-CPU data.
    """
    symbols = boot.image.symbols
    load, start, end = (symbols.address_of(name) for name in (LOAD, START, END))
    if load is None or start is None or end is None or not load <= address < load + end - start:
        return ""
    offset = address - load + start
    inside = (symbols.address >= np.uint64(start)) & (symbols.address <= np.uint64(offset))
    rows = np.flatnonzero(inside)
    nearest = rows[np.argmax(symbols.address[rows])] if len(rows) else -1
    if nearest < 0:
        return ""
    rest = offset - int(symbols.address[nearest])
    name = symbols.names[int(nearest)]
    return f"{name}+{rest:#x} of CPU 0" if rest else f"{name} of CPU 0"
