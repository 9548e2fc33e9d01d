"""Where a vCPU stands, as front ends show it while stepping.

The code around pc with the function each piece belongs to, the registers with what the last
step has changed, the task, the clock, and which hop of a traced call the place is: the
site, a module's stub, ftrace_caller, its slot, or the tracer that the slot calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import MemoryFault
from ..ftrace.entry import CALLER, CALLERS, RETURN_TO_HANDLER, SLOTS
from ..machine.function import function_at
from .path import SITE, SLOT, STUB, TRACER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..arch import ModuleStub
    from ..boot import Boot

BEFORE = 2048
"""Bytes of a function shown before pc; of one that is longer, the code from pc on."""

BEHIND = 256
"""Bytes shown behind pc at least, as far as there is code."""

HOPS = (SITE, STUB, CALLER, SLOT, TRACER)
"""The way of a traced call."""


@dataclass(frozen=True, slots=True)
class CodeRow:
    """An instruction, or where a function begins if it has no `data`."""

    address: int
    data: bytes
    text: str
    """The instruction, or the function."""
    here: bool = False
    """Whether it is the next to be executed."""


@dataclass(frozen=True, slots=True)
class RegisterRow:
    """A register, and what it was before the last step where that was something else."""

    name: str
    value: int
    old: int | None = None


@dataclass(frozen=True, slots=True)
class Stepping:
    """One vCPU at one moment."""

    cpu: int
    task: str
    """`comm-pid`."""
    state: str
    """running, idle, off or dead."""
    now: int
    """Its clock, virtual ns."""
    elapsed: int
    """Virtual ns of the last step."""
    steps: int
    """Instructions executed one by one since the machine was started."""
    place: str
    """`vfs_read+0x5/0x80`."""
    hop: str | None
    """One of `HOPS`, None where the place is in no traced call's way."""
    stubs: bool
    """Whether calls go through stubs here."""
    source: tuple[str, int] | None
    code: tuple[CodeRow, ...]
    registers: tuple[RegisterRow, ...]
    digits: int
    """Hexadecimal digits of a register."""
    row_bytes: int
    """Bytes of a row of code, of all but the longest."""


def stepping(boot: Boot, cpu: int) -> Stepping:
    """What `cpu` is about to execute and what its last step has changed."""
    machine = boot.machine
    vcpu = machine.vcpus[cpu]
    pc = vcpu.registers.pc
    facts = boot.port.facts
    stub = None if boot.port.stubs is None else boot.port.stubs.facts
    quads = facts.pointer_size == 8 and stub is not None and stub.code < stub.size  # its data
    pid = int(vcpu.local["pid"])
    comm = "<idle>" if not pid else boot.array.cmdlines().get(pid, "<...>")
    old = {each.name: each.old for each in boot.stepper.changes(cpu)}
    hop = hop_at(boot, pc)
    return Stepping(
        cpu=cpu,
        task=f"{comm}-{pid}",
        state=vcpu.state.name.lower(),
        now=vcpu.ticks,
        elapsed=boot.stepper.elapsed(cpu),
        steps=boot.stepper.steps,
        place=boot.kallsyms.format(pc),
        hop=hop,
        stubs=boot.port.stubs is not None or any(_stubs(boot)),
        source=_source_line(boot, pc, hop),
        code=_code(boot, pc),
        registers=tuple(
            RegisterRow(name, value, old.get(name))
            for name, value in machine.registers(cpu).items()
        ),
        digits=2 * facts.pointer_size,
        row_bytes=8 if facts.insn_align == 1 or quads else facts.insn_align,
    )


def hop_at(boot: Boot, pc: int) -> str | None:
    """Which of `HOPS` the code at `pc` is; None if none of them."""
    ftrace = boot.ftrace
    records, entry, port = ftrace.records, ftrace.entry, ftrace.port
    row = _record_before(boot, pc)
    if row is not None:
        sites = records.sites(slice(row, row + 1))
        if int(sites.ip[0]) <= pc < int(sites.ip[0]) + int(port.lengths(sites)[0]):
            return SITE
    if _stub_at(boot, pc) is not None:
        return STUB
    for caller in CALLERS:
        slot = entry.symbols.get(SLOTS[caller])
        if slot is not None:
            edit = port.update_ftrace_func(slot, ftrace.slot, ftrace.slot)
            if 0 <= pc - int(edit.address[0]) < edit.expected.shape[1]:
                return SLOT
    if entry.address <= pc < entry.address + len(entry.code):
        symbol = boot.kallsyms.lookup(pc)
        return CALLER if symbol is None or symbol.name != RETURN_TO_HANDLER else None
    trampolines = ftrace.trampolines
    own = None if trampolines is None else trampolines.at(pc)
    if own is not None:
        return SLOT if 0 <= pc - own.slot < port.facts.sites.size else CALLER
    symbol = boot.kallsyms.lookup(pc)
    called = {ftrace.slot, *(ops.func for ops in ftrace.ops)}
    try:
        code = {
            function_at(port.facts, boot.machine.memory, boot.kallsyms, each).code
            for each in called
        }
    except MemoryFault:
        return None
    return TRACER if symbol is not None and symbol.address in code else None


def _record_before(boot: Boot, pc: int) -> int | None:
    """The row of the last record whose ip is not behind `pc`."""
    row = int(boot.ftrace.records.rows_before(np.array([pc + 1], np.uint64))[0])
    return row if row >= 0 else None


def _source_line(boot: Boot, pc: int, hop: str | None) -> tuple[str, int] | None:
    """That of `pc`; of a site that the compiler gave no line, the function's first."""
    found = boot.source_line(pc)
    row = _record_before(boot, pc) if found is None and hop == SITE else None
    if row is None:
        return found
    ip = int(boot.ftrace.records.table["ip"][row])
    return boot.source_line(ip + boot.port.facts.sites.source_offset)


def _stub_at(boot: Boot, pc: int) -> ModuleStub | None:
    """The stub of a module that has `pc` in it."""
    inside = (stub for stub in _stubs(boot) if 0 <= pc - stub.address < len(stub.code))
    return next(inside, None)


def _stubs(boot: Boot) -> Iterator[ModuleStub]:
    """Those of the kernel and of all modules."""
    records = boot.ftrace.records
    for row in np.unique(records.table["module"], return_index=True)[1].tolist():
        yield from records.stubs_of(row)


def _code(boot: Boot, pc: int) -> tuple[CodeRow, ...]:
    """The instructions of the function at `pc`, and on from there."""
    stub = _stub_at(boot, pc)
    if stub is not None:
        hop = boot.paths.stub(stub)
        heading = CodeRow(stub.address, b"", boot.kallsyms.name(stub.address))
        insns = (CodeRow(i.address, i.data, text, i.address == pc) for i, text in hop.insns)
        return (heading, *insns)
    symbol = boot.kallsyms.lookup(pc)
    entry = boot.ftrace.entry
    start, end = pc, pc + BEHIND
    if entry.address <= pc < entry.address + len(entry.code):
        start, end = entry.address, entry.address + len(entry.code)
    elif symbol is not None and symbol.size:
        start, end = symbol.address, max(end, symbol.address + symbol.size)
    if pc - start > BEFORE:
        start = pc
    region = boot.machine.memory.region_at(pc)
    if region is None:
        return (CodeRow(pc, b"", "not mapped", True),)
    rows: list[CodeRow] = []
    shown = boot.instructions(start, max(min(end, region.end) - start, 1))
    if all(insn.address != pc for insn in shown):
        shown = boot.instructions(pc, max(min(end, region.end) - pc, 1))
    named = None
    for insn in shown:
        symbol = boot.kallsyms.lookup(insn.address)
        name = boot.kallsyms.name(insn.address) if symbol is not None else None
        if symbol is not None and (name != named or symbol.address == insn.address):
            inside = "" if symbol.address == insn.address else " (from inside)"
            rows.append(CodeRow(insn.address, b"", f"{name}{inside}"))
        named = name
        text = boot.disassembler.text(insn)
        rows.append(CodeRow(insn.address, insn.data, text, insn.address == pc))
    return tuple(rows)
