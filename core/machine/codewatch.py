"""Instructions that need more than the emulator, in kernels that did not boot.

- Some need hardware that the machine does not have: a port I/O, a write of a page table register
  or a wait for an interrupt has no effect in the emulator, and the code after it would run on with
  a wrong result. A vCPU stops before such an instruction.
- Some read a counter or random bits: the emulator returns the host's, so that two runs differ, or
  always the same value. The next instruction instead finds in the registers a number derived from
  virtual time.

The engine reports each block that it translates, before the block first runs. The text of its
instructions shows which ones need a hook. Code that is already translated costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from capstone import Cs
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_CODE, UC_HOOK_EDGE_GENERATED
from unicorn.unicorn_py3.unicorn import uc_tb

from ..facts import Counter, Engine
from .memory import PAGE_SIZE, Memory

_FIRST = 256
"""Bytes that are read where a run begins: the engine does not report that block."""

_WORD = (1 << 64) - 1


class CodeWatch:
    """The addresses of such instructions that one engine has translated, and their hooks."""

    def __init__(self, uc: Uc, engine: Engine, memory: Memory, ticks: Sequence[int]) -> None:
        """`ticks[0]` is the virtual time in ns."""
        self._uc = uc
        self._memory = memory
        self._facts = engine
        self._ticks = ticks
        self._needs = re.compile(engine.cs_hardware or r"(?!)")
        self._disassembler = Cs(engine.cs_arch, engine.cs_mode)
        self._hooks: dict[int, tuple[int, str]] = {}
        """Handle of the hook and text of the instruction, by its address."""
        self._seen: set[int] = set()
        """Where a run may begin: these blocks are read already."""
        self._new: dict[int, tuple[str, int, Counter | None]] = {}
        """Places of a block that is about to run and has no hook yet: text, address of the next
        instruction, and what is read there."""
        self._read: Counter | None = None
        self.reached: int | None = None
        """The place at which the last run has stopped."""
        uc.hook_add(UC_HOOK_EDGE_GENERATED, self._on_block)

    def begin(self, pc: int) -> None:
        """Prepare a run that begins at `pc`."""
        self.reached = None
        if pc not in self._seen:
            self._look(pc, min(_FIRST, PAGE_SIZE - pc % PAGE_SIZE))
            self.resumes()

    def resumes(self) -> bool:
        """Return whether the run has stopped only to get hooks, and place them."""
        new, self._new = self._new, {}
        for address, (text, after, counter) in new.items():
            self._uc.ctl_remove_cache(address, after + 1)
            if counter is None:
                hook = self._uc.hook_add(UC_HOOK_CODE, self._on_place, None, address, address)
            else:
                hook = self._uc.hook_add(
                    UC_HOOK_CODE, self._on_counter, (address, counter), address, after
                )
            self._hooks[address] = hook, text
        return bool(new) and self.reached is None

    def text(self, address: int) -> str:
        """Return the text of the instruction at the hooked `address`."""
        return self._hooks[address][1]

    def forget(self) -> None:
        """Read all blocks again: other code may be there."""
        self._seen.clear()
        for hook, _ in self._hooks.values():
            self._uc.hook_del(hook)
        self._hooks.clear()

    def settle(self) -> None:
        """Set the registers of the last counter read, if the read was the last step."""
        counter, self._read = self._read, None
        if counter is None:
            return
        value = self._ticks[0] // counter.tick_ns
        if counter.random:
            value = _mixed(value)
        for row, register in enumerate(counter.registers):
            width = counter.bits * row
            self._uc.reg_write(register, value >> width & (1 << counter.bits) - 1)

    def _on_block(self, uc: Uc, block: uc_tb, before: uc_tb, data: object) -> None:
        if self._look(block.pc, block.size):
            uc.emu_stop()

    def _on_place(self, uc: Uc, address: int, size: int, data: object) -> None:
        self.reached = address
        uc.emu_stop()

    def _on_counter(self, uc: Uc, address: int, size: int, data: tuple[int, Counter]) -> None:
        if address == data[0]:
            self._read = data[1]
        else:
            self.settle()

    def _look(self, start: int, size: int) -> bool:
        """Note the places in a block. Return whether there are new ones."""
        self._seen.add(start)
        code = self._memory.read_mapped(start, size)
        before = start
        for address, length, mnemonic, operands in self._disassembler.disasm_lite(code, start):
            text, after = f"{mnemonic} {operands}".rstrip(), address + length
            counter = self._facts.counters.get(code[address - start : after - start])
            slot = address != start and self._branches(code, before - start)
            if counter is not None and not slot:
                self._note(address, text, after, counter)
            elif counter is None and self._needs.match(text):
                # No run stops in a delay slot.
                self._note(before if slot else address, text, after, None)
            before = address
        return bool(self._new)

    def _note(self, address: int, text: str, after: int, counter: Counter | None) -> None:
        if address not in self._hooks:
            self._new[address] = text, after, counter

    def _branches(self, code: bytes, offset: int) -> bool:
        """Return whether the instruction at `offset` has a delay slot."""
        if self._facts.branches is None or self._facts.long_blocks is None:
            return False
        word = int.from_bytes(code[offset : offset + 4], self._memory.byteorder)
        return any(word & mask == value for mask, value in self._facts.long_blocks.ends)


def _mixed(value: int) -> int:
    """Return bits that look random, always the same for the same `value` (SplitMix64)."""
    value = (value + 1) * 0x9E3779B97F4A7C15 & _WORD
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _WORD
    return value ^ value >> 31
