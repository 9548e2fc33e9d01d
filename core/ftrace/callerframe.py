"""The frame of ftrace_caller: which register it has saved in which word of the stack.

Ports write entry.S by hand, so no compiler describes its frame. A trial run does: each register
begins with a value of its own, and wherever such a value is stored, that register is saved. It
starts at the label that a site calls, skips the slots, and ends when the code returns. Copies of
ftrace_caller for one user are run in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..facts import Abi
from ..machine.memory import PAGE_SIZE
from ..machine.trial import Trials

LINK = "return address"
"""The name of the word with the address to which the call of a site returns."""

_MOST = 300
"""Instructions of a trial; ftrace_regs_caller has about a hundred."""

_ROOM = 1 << 16
"""Bytes of stack that a trial has, most of them below sp."""


@dataclass(frozen=True, slots=True)
class SavedWord:
    """A register in the frame."""

    offset: int
    """Bytes from sp at the entry of ftrace_caller; a return address that the call pushed is 0."""
    name: str
    """The register's name, or `LINK`."""
    since: int
    """Number of the instruction, from 0, that stores it; -1 if the call has done so."""


@dataclass(frozen=True, slots=True)
class CallerFrame:
    """What ftrace_caller does to the stack."""

    below: Mapping[int, tuple[int, int]]
    """By pc: the number of the instruction, and the bytes between sp and sp at the entry."""
    saved: tuple[SavedWord, ...]

    def words(self, pc: int | None) -> dict[int, str]:
        """Return the names of the saved words by offset, when `pc` is about to be executed.

        None means that the tracer is running, which is called when all registers are saved.
        """
        number = _MOST if pc is None else self.below[pc][0]
        return {each.offset: each.name for each in self.saved if each.since < number}


def caller_frame(
    trials: Trials,
    start: int,
    end: int,
    slots: Mapping[int, int],
    delayed: Callable[[bytes], bool],
) -> CallerFrame:
    """Run the code from `start` to `end`, and return what it does to the stack.

    `slots` has the sizes of its slots by their addresses; `delayed` is `Port.has_delay_slot`.
    """
    engine = trials.engine
    facts = engine.facts
    abi, size = facts.abi, facts.pointer_size
    order: Literal["little", "big"] = "little" if facts.byteorder == "little" else "big"
    mask = (1 << 8 * size) - 1
    engine.begin(lambda page: trials.page(page) or bytes(PAGE_SIZE))
    sp = (facts.map.host_stack + _ROOM) & mask
    values = _values(abi, size, sp, start, engine.new)
    engine.registers.write(values)
    names = {value: LINK if _is_link(abi, name) else name for name, value in values.items()}
    saved: dict[int, SavedWord] = {}
    if abi.link is None:
        saved[0] = SavedWord(0, LINK, -1)
    below: dict[int, tuple[int, int]] = {}
    pc = start
    for number in range(_MOST):
        if not start <= pc < end:
            break
        if pc in slots:
            below.setdefault(pc, (number, sp - engine.registers.sp))
            pc += slots[pc]
            continue
        below.setdefault(pc, (number, sp - engine.registers.sp))
        engine.accesses.clear()
        insn = (trials.page(pc & -PAGE_SIZE) or b"")[pc % PAGE_SIZE :][: facts.max_insn_size]
        if not engine.step(pc, 2 if delayed(insn) else 1):
            break
        pc = engine.registers.pc
        for address, width, write in engine.accesses:
            if not write:
                continue
            for at in range(address & mask, (address & mask) + width, size):
                value = int.from_bytes(engine.read(at, size), order)
                name = names.get(value)
                if name is not None:
                    saved.setdefault(at - sp, SavedWord(at - sp, name, number))
    return CallerFrame(below, tuple(saved.values()))


def _values(abi: Abi, size: int, sp: int, start: int, new: Mapping[str, int]) -> dict[str, int]:
    """Return a value of its own for each register.

    `new` has the registers of a new engine: those that are not 0 hold the CPU's state, and stay.
    """
    high = 0x5A << (8 * size - 8)
    values = {
        register.name: high + 0x1000 * (row + 1)
        for row, register in enumerate(abi.pt_regs)
        if not new[register.name]
    }
    return {**values, abi.pc.name: start, abi.sp.name: sp}


def _is_link(abi: Abi, name: str) -> bool:
    return abi.link is not None and name == abi.link.name
