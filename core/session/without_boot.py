"""Why a function does not run in a kernel that has not booted.

A call that faults, fails or does not end is repeated from the same state, with its last reads of
memory recorded. They show what was missing: a pointer that the boot sets and that is still NULL, or
the word that a loop waits for. Then the machine is put back to where the call ended.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..abi import MAX_ERRNO
from ..errors import DynftraceError, GuestError, GuestHang, GuestOops, MemoryFault
from ..kernel.fit import CALLS, TRACER_SIZE
from ..kernel.placed import END, LOAD, START
from ..machine.vcpu import Read
from ..memento import Restore

if TYPE_CHECKING:
    from .boot import Boot

LIMIT_NS = 1_000_000_000
"""Longest call, in virtual ns: without a boot, nothing that a call waits for ever happens."""

WATCHED_NS = 100_000
"""Virtual ns before a call's end in which reads are recorded."""

NEAR = 4096
"""Largest offset in bytes of an access through a pointer."""

NOT_BOOTED = "the kernel has not booted"

_PLACE, _WORD = re.compile(r"[\[(]([^\])]*)[\])]"), re.compile(r"[\w$]+")
"""A memory operand, and the words in it."""

LAST = 20_000
"""Maximum number of reads kept."""

RODATA = "__start_rodata", "__start_ro_after_init"
"""Symbols around the kernel's constants."""

GUARD = "__stack_chk_guard"
"""The word that a stack protector saves and compares, if it is one for all tasks."""

_SAVED = 4
"""Instructions after a load in which a function saves its value on the stack."""


@dataclass(slots=True)
class _Ended:
    """The vCPU where a call ended."""

    ticks: int
    pc: int = 0
    address: int | None = None


def call(boot: Boot, pointer: int, arguments: Sequence[int], remark: Callable[[str], None]) -> int:
    """Call the function at `pointer` and return its result.

    If it may have failed because the kernel has not booted, `remark` gets the reason as a sentence.
    Raises what `Requests.call` raises. The message of a `GuestOops` or `GuestHang` begins with the
    reason, if one was found.
    """
    machine = boot.machine
    before = machine.save()
    try:
        result = machine.requests.call(pointer, arguments, limit_ns=LIMIT_NS)
    except GuestOops as error:
        ended = _Ended(machine.vcpus[0].ticks, error.pc, machine.fault_address)
        if ended.address is None:
            reason = _refused(boot, ended.pc, str(error))
        else:
            reason = _fault(boot, _again(boot, before, pointer, arguments, ended), ended)
        if not reason:
            raise
        error.cause = reason
        text = f"{reason}: {error}"
        raise GuestOops(text, cpu=error.cpu, pc=error.pc, report=error.report) from error
    except GuestHang as error:
        ended = _Ended(machine.vcpus[0].ticks)
        reason = _hang(boot, _again(boot, before, pointer, arguments, ended))
        if not reason:
            raise
        raise GuestError(f"{reason}: {error}") from error
    if _failed(boot, result):
        ended = _Ended(machine.vcpus[0].ticks)
        reason = _missed(boot, _again(boot, before, pointer, arguments, ended))
        if reason:
            remark(reason)
    return result


def _failed(boot: Boot, result: int) -> bool:
    """Whether `result` may report a failure."""
    tops = [1 << bits for bits in (32, 8 * boot.port.facts.pointer_size)]
    return not result or any(top - MAX_ERRNO <= result % top for top in tops)


def _again(
    boot: Boot, before: Restore, pointer: int, arguments: Sequence[int], ended: _Ended
) -> list[Read]:
    """Return the last reads of a call that began in the state `before`; it stays as it ended."""
    after = boot.machine.save()
    try:
        before()
        return _reads(boot, pointer, arguments, ended)
    finally:
        after()


def _reads(boot: Boot, pointer: int, arguments: Sequence[int], ended: _Ended) -> list[Read]:
    """Repeat the call and return its last reads of memory, in order."""
    vcpu, scheduler = boot.machine.vcpus[0], boot.machine.scheduler
    found: deque[Read] = deque(maxlen=LAST)
    limit = ended.ticks - vcpu.ticks
    since = max(ended.ticks - WATCHED_NS, 0)
    with vcpu.recording(found, since), scheduler.interruptible(), suppress(DynftraceError):
        boot.machine.requests.call(pointer, arguments, limit_ns=limit)
    return list(found)


def _refused(boot: Boot, pc: int, said: str) -> str:
    """Return which instruction cannot run; empty if it is not in memory."""
    where, text = boot.kallsyms.format(pc), _text(boot, pc)
    if not text:
        return ""
    return f"{where} cannot run here" if text in said else f"{where} cannot run here: `{text}`"


def _fault(boot: Boot, reads: list[Read], ended: _Ended) -> str:
    """Return the cause of an access to unmapped memory; empty if unknown."""
    where = boot.kallsyms.format(ended.pc)
    text = _text(boot, ended.pc)
    assert ended.address is not None
    for read in reversed(_nulls(boot, reads)):
        name = _name(boot, read.address)
        if ended.pc == ended.address == 0:
            caller = boot.kallsyms.format(read.pc)
            return f"{caller} calls the function in {name}, which is still NULL: {NOT_BOOTED}"
        if not 0 <= ended.address < NEAR:
            continue
        target = _target(boot, read.pc)
        if target and any(target in _WORD.findall(part) for part in _PLACE.findall(text)):
            return f"{where} uses the pointer in {name}, which is still NULL: {NOT_BOOTED}"
    if ended.address == ended.pc < NEAR:
        return f"a call or jump led to {ended.pc:#x}: a pointer to a function is NULL"
    if ended.address < NEAR:
        return f"{where} uses a NULL pointer, which it was given or which the boot sets"
    region = boot.machine.memory.region_at(ended.address)
    if region is not None:
        return f"{where} cannot use {_name(boot, ended.address)}: its memory does not allow that"
    return f"{where} uses memory that the boot maps, or none"


def _missed(boot: Boot, reads: list[Read]) -> str:
    """Return which word was 0 in a call that may have failed; empty if none was."""
    nulls = _nulls(boot, reads)
    if not nulls:
        return ""
    where, name = boot.kallsyms.format(nulls[-1].pc), _name(boot, nulls[-1].address)
    return f"{where} has read 0 from {name}, which the boot may set: {NOT_BOOTED}"


def _nulls(boot: Boot, reads: list[Read]) -> list[Read]:
    """Return the reads of NULL from data that a boot may set, but not of a stack protector."""
    size, area = boot.port.facts.pointer_size, boot.port.facts.map
    start, end = (boot.image.symbols.address_of(name) or 0 for name in RODATA)
    found = [
        read
        for read in reads
        if read.value == 0
        and read.size == size
        and not area.tracer <= read.pc < area.tracer + TRACER_SIZE
        and not area.host_stack <= read.address < area.host_stack + CALLS
        and not start <= read.address < end
        and read.address != boot.modules.exported.get(GUARD)
    ]
    by_address: dict[int, set[int]] = {}
    for read in found:
        by_address.setdefault(read.address, set()).add(read.pc)
    guards = {
        address
        for address, places in by_address.items()
        if any(_saves(boot, place) for place in sorted(places))
    }
    return [read for read in found if read.address not in guards]


def _saves(boot: Boot, pc: int) -> bool:
    """Whether the instruction at `pc` loads a word that the next few save on the stack.

    A stack protector does this: the word is no pointer.
    """
    try:
        insns = boot.instructions(pc, _SAVED * boot.port.facts.max_insn_size)
    except MemoryFault:
        return False
    target, sp = _target(boot, pc), boot.port.facts.abi.sp.name
    for insn in insns[1 : _SAVED + 1]:
        place = _PLACE.search(insn.operands)
        if place is None or target not in _WORD.findall(_PLACE.sub("", insn.operands)):
            continue
        # Below a frame pointer, or above the stack pointer.
        if " - " in place[0] or {sp, f"${sp}"} & set(_WORD.findall(place[0])):
            return True
    return False


def _target(boot: Boot, pc: int) -> str:
    """Return the register that the instruction at `pc` loads; empty if unknown."""
    return _text(boot, pc).partition(" ")[2].partition(",")[0].strip()


def _hang(boot: Boot, reads: list[Read]) -> str:
    """Return what an endless call reads again and again; empty if unknown."""
    stack = boot.port.facts.map.host_stack
    tracer = boot.port.facts.map.tracer
    data = [
        read
        for read in reads
        if not stack <= read.address < stack + CALLS
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
