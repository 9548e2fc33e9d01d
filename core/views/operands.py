"""The operands of an instruction: the registers it names with their values, and its memory.

The memory comes from a trial run (`machine/trial.py`): addresses, and the values before and after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine.machine import Machine
from ..machine.trial import Access, Trials
from ..machine.vcpu import State, Vcpu
from .disasm import Insn
from .values import ValueNames

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True, slots=True)
class Operand:
    """A register that an instruction names or uses."""

    name: str
    value: int
    meaning: str
    """Name of the value, if it is an address; else ""."""


@dataclass(frozen=True, slots=True)
class MemoryOperand:
    """Memory that an instruction reads or writes."""

    access: Access
    place: str
    """Name of that address; "" if unknown."""
    before: str
    """Name of the value before the instruction, if it is an address; else ""."""
    after: str
    """Name of the value after the instruction, if it is an address; else ""."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one instruction."""

    registers: tuple[Operand, ...] = ()
    memory: tuple[MemoryOperand, ...] = ()


class OperandReader:
    """Reads the operands of the instructions that the vCPUs of one machine execute next."""

    def __init__(self, machine: Machine, trials: Trials, names: ValueNames) -> None:
        self._machine = machine
        self._trials = trials
        self._names = names

    def of(self, vcpu: Vcpu, insns: list[Insn]) -> Operands:
        """Return the operands of `insns`, which `vcpu` executes next: one, or a branch and slot."""
        if not insns:
            return Operands()
        return Operands(self._registers(vcpu, insns[0]), self.memory(vcpu))

    def memory(self, vcpu: Vcpu) -> tuple[MemoryOperand, ...]:
        """Return the memory that the next instruction of `vcpu` reads and writes."""
        if vcpu.state is not State.RUNNING:
            return ()
        found = self._trials.accesses(vcpu, self._machine.instructions_of_step(vcpu))
        return tuple(self.named(vcpu, access) for access in found)

    def named(self, vcpu: Vcpu, access: Access) -> MemoryOperand:
        """Return `access` with names for its address and values."""
        whole = access.size == self._machine.port.facts.pointer_size
        after = access.after
        return MemoryOperand(
            access,
            self._names.place(access.address, vcpu),
            self._names.value(access.before, vcpu) if whole else "",
            self._names.value(after, vcpu) if whole and after is not None else "",
        )

    def _registers(self, vcpu: Vcpu, insn: Insn) -> tuple[Operand, ...]:
        facts = self._machine.port.facts
        values, parts = vcpu.registers.read(), facts.engine.cs_parts
        words = [*_WORD.findall(insn.operands), *insn.reads]
        named = dict.fromkeys(parts.get(word, word) for word in words)
        apart = {facts.abi.pc.name, *self._flags()}
        return tuple(
            Operand(name, values[name], self._names.value(values[name], vcpu))
            for name in named
            if name in values and name not in apart
        )

    def _flags(self) -> set[str]:
        """Return the registers that hold CPU state: those that are not 0 in a new engine."""
        new = self._trials.engine.new
        return {name for name, value in new.items() if value}
