"""Instructions that need hardware the machine does not have, in kernels that did not boot.

A port I/O, a write of a page table register or a wait for an interrupt has no effect in the
emulator, and the code after it would run on with a wrong result. So a vCPU stops before such an
instruction. The engine reports each block that it translates, before the block runs first; the
text of its instructions tells. Code that is translated already costs nothing.
"""

from __future__ import annotations

import re

from capstone import Cs
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_CODE, UC_HOOK_EDGE_GENERATED
from unicorn.unicorn_py3.unicorn import uc_tb

from ..facts import Engine
from .memory import PAGE_SIZE, Memory

_FIRST = 256
"""Bytes that are read where a run begins: the engine does not report that block."""


class HardwareWatch:
    """The places at which one engine must stop, and the hooks there."""

    def __init__(self, uc: Uc, engine: Engine, memory: Memory) -> None:
        self._uc = uc
        self._memory = memory
        self._facts = engine
        self._needs = re.compile(engine.cs_hardware)
        self._disassembler = Cs(engine.cs_arch, engine.cs_mode)
        self._hooks: dict[int, tuple[int, str]] = {}
        """Handle of the hook and text of the instruction, by its address."""
        self._seen: set[int] = set()
        """Where a run may begin: these blocks are read already."""
        self._new: dict[int, str] = {}
        """Places of a block that is about to run and has no hook yet."""
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
        for address, text in new.items():
            self._uc.ctl_remove_cache(address, address + 1)
            hook = self._uc.hook_add(UC_HOOK_CODE, self._on_place, None, address, address)
            self._hooks[address] = hook, text
        return bool(new) and self.reached is None

    def text(self, address: int) -> str:
        """Return the instruction at one of the places."""
        return self._hooks[address][1]

    def forget(self) -> None:
        """Read all blocks again: other code may be there."""
        self._seen.clear()
        for hook, _ in self._hooks.values():
            self._uc.hook_del(hook)
        self._hooks.clear()

    def _on_block(self, uc: Uc, block: uc_tb, before: uc_tb, data: object) -> None:
        if self._look(block.pc, block.size):
            uc.emu_stop()

    def _on_place(self, uc: Uc, address: int, size: int, data: object) -> None:
        self.reached = address
        uc.emu_stop()

    def _look(self, start: int, size: int) -> bool:
        """Note the places in a block. Return whether there are new ones."""
        self._seen.add(start)
        code = self._memory.read_mapped(start, size)
        before = start
        for address, _, mnemonic, operands in self._disassembler.disasm_lite(code, start):
            text = f"{mnemonic} {operands}".rstrip()
            if address not in self._hooks and self._needs.match(text):
                place = before if self._branches(code, before - start) else address
                self._new[place] = text
            before = address
        return bool(self._new)

    def _branches(self, code: bytes, offset: int) -> bool:
        """Return whether the instruction at `offset` has a delay slot: no run stops there."""
        if self._facts.branches is None or self._facts.long_blocks is None:
            return False
        word = int.from_bytes(code[offset : offset + 4], self._memory.byteorder)
        return any(word & mask == value for mask, value in self._facts.long_blocks.ends)
