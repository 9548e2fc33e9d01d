"""Kprobes of x86: `int3`, and the copy of the instruction in its slot.

The copy is followed by a jump to the next instruction, so that nothing is single-stepped (a
boosted kprobe). Three kinds of instructions depend on where they are:

    operand [rip + disp32]     the displacement is corrected
    jcc, jmp, loop, jecxz      a branch to the same target, with 32 bits: jcc rel32; a loop
                               jumps over a jump
    call                       pushes the address after the probed instruction, and jumps

Source: arch/x86/kernel/kprobes/core.c, 6.1, which emulates branches and calls instead; Intel's
Software Developer's Manual, volume 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from capstone import CS_ARCH_X86, CS_GRP_CALL, CS_GRP_JUMP, Cs, CsInsn
from capstone.x86 import X86_OP_IMM, X86_OP_MEM, X86_REG_RIP

from ...core.facts import Breakpoint
from . import insn

_JCC8, _JCC32 = range(0x70, 0x80), 0x0F
_SHORT = range(0xE0, 0xE4)  # loopne, loope, loop, jecxz
_LONGEST = 15


@dataclass(frozen=True)
class X86Probes:
    """See `core.arch.Probes`."""

    breakpoint: Breakpoint
    mode: int
    """Of Capstone."""
    bits: int

    @cached_property
    def _decoder(self) -> Cs:
        decoder = Cs(CS_ARCH_X86, self.mode)
        decoder.detail = True
        return decoder

    def length(self, code: bytes, start: int, address: int) -> int | None:
        """Return the size of the instruction at `address`; None if no instruction begins there."""
        for each in self._decoder.disasm(code, start):
            if each.address == address:
                return int(each.size)
            if each.address > address:
                return None
        return None

    def out_of_line(self, insn_: bytes, address: int, slot: int) -> bytes | None:
        """Return code for `slot` that has the effect of `insn_` at `address` and jumps after it."""
        found: Iterator[CsInsn] = self._decoder.disasm(insn_, address)
        each = next(found, None)
        if each is None or each.size != len(insn_) or each.mnemonic in ("int3", "ud2"):
            return None
        after = address + len(insn_)
        if each.group(CS_GRP_CALL) or each.group(CS_GRP_JUMP):
            return self._branch(each, insn_, slot, after)
        code = self._corrected(each, insn_, address, slot)
        return None if code is None else code + self._jump(slot + len(code), after)

    def _jump(self, at: int, target: int) -> bytes:
        """Return `jmp rel32` at `at`."""
        return bytes((insn.JMP,)) + self._rel32(at + insn.REL32_SIZE, target)

    def _rel32(self, after: int, target: int) -> bytes:
        offset = (target - after) % (1 << self.bits)
        offset -= (offset >> self.bits - 1) << self.bits
        return offset.to_bytes(4, "little", signed=True)

    def _corrected(self, each: CsInsn, code: bytes, address: int, slot: int) -> bytes | None:
        """Return `code` with its displacement relative to rip changed."""
        if not any(op.type == X86_OP_MEM and op.mem.base == X86_REG_RIP for op in each.operands):
            return code
        at = each.disp_offset
        disp = int.from_bytes(code[at : at + 4], "little", signed=True) + address - slot
        if not -(1 << 31) <= disp < 1 << 31:
            return None
        return code[:at] + disp.to_bytes(4, "little", signed=True) + code[at + 4 :]

    def _branch(self, each: CsInsn, code: bytes, slot: int, after: int) -> bytes | None:
        direct = each.operands and each.operands[0].type == X86_OP_IMM
        target = each.operands[0].imm % (1 << self.bits) if direct else 0
        pushed, at = b"", slot
        if each.group(CS_GRP_CALL):
            pushed = self._push(after)
            at += len(pushed)
            if not direct:
                return self._indirect_call(each, code, slot, pushed)
        if not direct:
            return self._corrected(each, code, after - len(code), slot)
        opcode = code[0]
        if each.mnemonic in ("jmp", "call"):
            return pushed + self._jump(at, target)
        if opcode in _JCC8 or (opcode == _JCC32 and code[1] & 0xF0 == 0x80):
            condition = (opcode if opcode in _JCC8 else code[1]) & 15
            first = bytes((0x0F, 0x80 | condition)) + self._rel32(slot + 6, target)
            return first + self._jump(slot + 6, after)
        if opcode in _SHORT:
            # loop +5; jmp after; jmp target
            first = bytes((opcode, insn.REL32_SIZE))
            first += self._jump(slot + 2, after)
            return first + self._jump(slot + len(first), target)
        return None

    def _push(self, value: int) -> bytes:
        """Return code that pushes an address."""
        low = bytes((0x68,)) + (value & 0xFFFF_FFFF).to_bytes(4, "little")  # push imm32
        if self.bits == 32:
            return low
        # mov dword ptr [rsp + 4], imm32: the push has extended the sign.
        return low + bytes.fromhex("c7 44 24 04") + (value >> 32).to_bytes(4, "little")

    def _indirect_call(self, each: CsInsn, code: bytes, slot: int, pushed: bytes) -> bytes | None:
        """Return a push and the jump through the same operand (`ff /2` becomes `ff /4`)."""
        if any(each.reg_name(op.reg) in ("rsp", "esp") for op in each.operands if op.type == 1):
            return None
        memory = [op.mem for op in each.operands if op.type == X86_OP_MEM]
        if any(each.reg_name(mem.base) in ("rsp", "esp") for mem in memory):
            return None  # the push would change the operand
        at = code.index(0xFF)
        modrm = code[at + 1] & ~0x38 | 4 << 3
        jump = code[:at] + bytes((0xFF, modrm)) + code[at + 2 :]
        moved = self._corrected(each, jump, int(each.address), slot + len(pushed))
        return None if moved is None else pushed + moved
