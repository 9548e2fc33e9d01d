"""The state of one vCPU while the user steps.

It consists of the code around pc with function names, the registers and their values
before the last step, the task, the clock, and the hop of a traced call that contains pc: the
site, a module's stub, ftrace_caller, its slot, or the tracer that the slot calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arch import ModuleStub
from ..errors import MemoryFault
from ..ftrace.callers import Callers
from ..ftrace.entry import CALLER, CALLERS, RETURN_TO_HANDLER, SLOTS
from ..ftrace.ftrace import Ftrace
from ..kernel.kallsyms import Kallsyms
from ..machine.function import function_at
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from .call_site import Files
from .disasm import Disassembler, Insn
from .operands import OperandReader, Operands
from .path import SITE, SLOT, STUB, TRACER, PathReader
from .stack import Stack, StackReader

BEFORE = 2048
"""Maximum bytes shown before pc; if the function began earlier, the code begins at pc."""

BEHIND = 256
"""Minimum bytes shown after pc, if there is that much code."""

STACK_WORDS = 64
"""Words of the stack in a view, from sp upwards."""

HOPS = (SITE, STUB, CALLER, SLOT, TRACER)
"""The hops of a traced call, in order."""


@dataclass(frozen=True, slots=True)
class CodeRow:
    """An instruction; without `data`, the heading of a function."""

    address: int
    data: bytes
    text: str
    """The instruction, or the name of the function."""
    here: bool = False
    """Whether it is executed next."""


@dataclass(frozen=True, slots=True)
class RegisterRow:
    """A register, and its value before the last step if that step changed it."""

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
    """The vCPU's clock, in virtual ns."""
    elapsed: int
    """Duration of the last step, in virtual ns."""
    steps: int
    """Instructions stepped since the machine was started."""
    place: str
    """pc as the kernel prints it: `vfs_read+0x5/0x80`."""
    ip: int | None
    """rec.ip of the call that led here, or None."""
    hop: str | None
    """One of `HOPS`; None if pc is not on the path of a traced call."""
    stubs: bool
    """Whether modules of this machine use stubs."""
    source: tuple[str, int] | None
    code: tuple[CodeRow, ...]
    registers: tuple[RegisterRow, ...]
    operands: Operands
    """The operands of the next instruction."""
    stack: Stack
    digits: int
    """Hexadecimal digits of a register."""
    row_bytes: int
    """Bytes of code for which a row has room; few rows have more."""


class Change(Protocol):
    """A register that a step changed."""

    @property
    def name(self) -> str:
        """The register's name."""
        ...

    @property
    def old(self) -> int:
        """Its value before the step."""
        ...


class Steps(Protocol):
    """The single steps of a machine, as far as the view needs them."""

    @property
    def steps(self) -> int:
        """Instructions stepped since the machine was started."""
        ...

    def changes(self, cpu: int) -> Iterable[Change]:
        """Return the registers that the last step of `cpu` changed."""
        ...

    def elapsed(self, cpu: int) -> int:
        """Return the duration of the last step of `cpu`, in virtual ns."""
        ...


class SteppingReader:
    """Reads the state of one machine's vCPUs."""

    def __init__(
        self,
        machine: Machine,
        ftrace: Ftrace,
        steps: Steps,
        paths: PathReader,
        disasm: Disassembler,
        files: Files,
        tasks: Callable[[], Mapping[int, str]],
        operands: OperandReader,
        stacks: StackReader,
        callers: Callers,
        instructions: Callable[[int, int], list[Insn]],
    ) -> None:
        """`tasks` returns names by pid, `instructions` those that begin in a range of bytes."""
        self._machine = machine
        self._ftrace = ftrace
        self._kallsyms: Kallsyms = ftrace.kallsyms
        self._steps = steps
        self._paths = paths
        self._disasm = disasm
        self._files = files
        self._tasks = tasks
        self._operands = operands
        self._stacks = stacks
        self._callers = callers
        self._instructions = instructions

    def at(self, cpu: int) -> Stepping:
        """Return what `cpu` executes next and what its last step changed."""
        machine, port = self._machine, self._machine.port
        vcpu = machine.vcpus[cpu]
        pc = vcpu.registers.pc
        facts = port.facts
        stub = None if port.stubs is None else port.stubs.facts
        quads = facts.pointer_size == 8 and stub is not None and stub.code < stub.size  # its data
        pid = int(vcpu.local["pid"])
        comm = "<idle>" if not pid else self._tasks().get(pid, "<...>")
        old = {each.name: each.old for each in self._steps.changes(cpu)}
        hop = self.hop_at(pc)
        return Stepping(
            cpu=cpu,
            task=f"{comm}-{pid}",
            state=vcpu.state.name.lower(),
            now=vcpu.ticks,
            elapsed=self._steps.elapsed(cpu),
            steps=self._steps.steps,
            place=self._kallsyms.format(pc),
            ip=self._call_at(vcpu),
            hop=hop,
            stubs=port.stubs is not None or bool(self._ftrace.records.stubs),
            source=self._source_line(pc, hop),
            code=self._code(pc),
            registers=tuple(
                RegisterRow(name, value, old.get(name))
                for name, value in machine.registers(cpu).items()
            ),
            operands=self._operands.of(vcpu, self._next(pc)),
            stack=self._stacks.at(cpu, STACK_WORDS),
            digits=2 * facts.pointer_size,
            row_bytes=8 if facts.insn_align == 1 or quads else facts.insn_align,
        )

    def _call_at(self, vcpu: Vcpu) -> int | None:
        """Return rec.ip of the call that `vcpu` is about to make, or on whose path it is."""
        records, pc = self._ftrace.records, vcpu.registers.pc
        places = [pc, *(call.address - 1 for call in self._callers.of(vcpu)[:1])]
        for place in places:
            row = self._record_before(place)
            if row is None:
                continue
            sites = records.sites(slice(row, row + 1))
            ip = int(sites.ip[0])
            if ip <= place < ip + int(self._ftrace.port.lengths(sites)[0]):
                return ip
        return None

    def _next(self, pc: int) -> list[Insn]:
        """Return the instruction at `pc` in a list; an empty one if it is not mapped."""
        try:
            return self._instructions(pc, 1)
        except MemoryFault:
            return []

    def hop_at(self, pc: int) -> str | None:
        """Return the hop among `HOPS` that contains `pc`, or None."""
        ftrace = self._ftrace
        records, entry, port = ftrace.records, ftrace.entry, ftrace.port
        row = self._record_before(pc)
        if row is not None:
            sites = records.sites(slice(row, row + 1))
            if int(sites.ip[0]) <= pc < int(sites.ip[0]) + int(port.lengths(sites)[0]):
                return SITE
        if self._stub_at(pc) is not None:
            return STUB
        for caller in CALLERS:
            slot = entry.symbols.get(SLOTS[caller])
            if slot is not None:
                edit = port.update_ftrace_func(slot, ftrace.slot, ftrace.slot)
                if 0 <= pc - int(edit.address[0]) < edit.expected.shape[1]:
                    return SLOT
        if entry.address <= pc < entry.address + len(entry.code):
            symbol = self._kallsyms.lookup(pc)
            return CALLER if symbol is None or symbol.name != RETURN_TO_HANDLER else None
        trampolines = ftrace.trampolines
        own = None if trampolines is None else trampolines.at(pc)
        if own is not None:
            return SLOT if 0 <= pc - own.slot < port.facts.sites.size else CALLER
        symbol = self._kallsyms.lookup(pc)
        called = {ftrace.slot, *(ops.func for ops in ftrace.ops)}
        try:
            code = {
                function_at(port.facts, self._machine.memory, self._kallsyms, each).code
                for each in called
            }
        except MemoryFault:
            return None
        return TRACER if symbol is not None and symbol.address in code else None

    def _record_before(self, pc: int) -> int | None:
        """Return the row of the last record whose ip is not above `pc`."""
        row = int(self._ftrace.records.rows_before(np.array([pc + 1], np.uint64))[0])
        return row if row >= 0 else None

    def _source_line(self, pc: int, hop: str | None) -> tuple[str, int] | None:
        """Return the source line of `pc`; for a site without one, the function's first line."""
        found = self._files.source_line(pc)
        row = self._record_before(pc) if found is None and hop == SITE else None
        if row is None:
            return found
        ip = int(self._ftrace.records.table["ip"][row])
        return self._files.source_line(ip + self._ftrace.port.facts.sites.source_offset)

    def _stub_at(self, pc: int) -> ModuleStub | None:
        """Return the module stub that contains `pc`."""
        stubs = self._ftrace.records.stubs
        return next((stub for stub in stubs if 0 <= pc - stub.address < len(stub.code)), None)

    def _code(self, pc: int) -> tuple[CodeRow, ...]:
        """Return the instructions of the function at `pc` and of the code after it."""
        stub = self._stub_at(pc)
        if stub is not None:
            hop = self._paths.stub(stub)
            heading = CodeRow(stub.address, b"", self._kallsyms.name(stub.address))
            insns = (CodeRow(i.address, i.data, text, i.address == pc) for i, text in hop.insns)
            return (heading, *insns)
        symbol = self._kallsyms.lookup(pc)
        entry = self._ftrace.entry
        start, end = pc, pc + BEHIND
        if entry.address <= pc < entry.address + len(entry.code):
            start, end = entry.address, entry.address + len(entry.code)
        elif symbol is not None and symbol.size:
            start, end = symbol.address, max(end, symbol.address + symbol.size)
        if pc - start > BEFORE:
            start = pc
        part = self._machine.memory.mapped_at(pc)
        if part is None:
            return (CodeRow(pc, b"", "not mapped", True),)
        rows: list[CodeRow] = []
        start = max(start, part[0])
        shown = self._instructions(start, max(min(end, part[1]) - start, 1))
        if all(insn.address != pc for insn in shown):
            shown = self._instructions(pc, max(min(end, part[1]) - pc, 1))
        named = None
        for insn in shown:
            symbol = self._kallsyms.lookup(insn.address)
            name = self._kallsyms.name(insn.address) if symbol is not None else None
            if symbol is not None and (name != named or symbol.address == insn.address):
                inside = "" if symbol.address == insn.address else " (from inside)"
                rows.append(CodeRow(insn.address, b"", f"{name}{inside}"))
            named = name
            text = self._disasm.text(insn)
            rows.append(CodeRow(insn.address, insn.data, text, insn.address == pc))
        return tuple(rows)
