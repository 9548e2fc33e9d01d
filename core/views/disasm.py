"""Machine code as text: small ranges, when somebody looks at them.

Capstone is opened at the first use and asked for no more bytes than are given;
what it cannot decode comes out as `.byte`, one smallest instruction at a time,
so that a range is always shown to its end. Names of branch targets are looked
up when text is made, since modules come and go.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from capstone import (
    CS_GRP_BRANCH_RELATIVE,
    CS_GRP_CALL,
    CS_GRP_JUMP,
    CS_GRP_RET,
    CS_OP_IMM,
    Cs,
    CsInsn,
)

from ..arch import Facts
from ..elf.symbols import Symbol

_CACHED = 512
"""Decoded ranges kept."""


class SymbolLookup(Protocol):
    """What is needed of kallsyms."""

    def lookup(self, address: int) -> Symbol | None:
        """The symbol that covers `address`."""
        ...


@dataclass(frozen=True, slots=True)
class Insn:
    """One instruction, or bytes that are none."""

    address: int
    data: bytes
    mnemonic: str
    operands: str
    target: int | None = None
    """Where it branches to, when the instruction itself says so."""
    decoded: bool = True
    returns: bool = False
    """Whether it ends a function."""

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + len(self.data)


class Disassembler:
    """Decodes for one architecture."""

    def __init__(self, facts: Facts, symbols: SymbolLookup) -> None:
        self._facts = facts
        self._symbols = symbols
        self._engine: Cs | None = None
        self._cache: OrderedDict[tuple[int, bytes], tuple[Insn, ...]] = OrderedDict()

    def decode(self, address: int, data: bytes) -> tuple[Insn, ...]:
        """The instructions of `data` at `address`, all of it."""
        key = (address, bytes(data))
        known = self._cache.get(key)
        if known is None:
            known = self._cache[key] = tuple(self._decode(*key))
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return known

    def text(self, insn: Insn) -> str:
        """`call ftrace_caller`: operands with the names of branch targets."""
        operands = insn.operands
        if insn.target is not None and (name := self.name(insn.target)):
            # The target is the last operand of a conditional branch too.
            operands = ", ".join([*operands.split(", ")[:-1], name])
        return f"{insn.mnemonic} {operands}".rstrip()

    def line(self, address: int, data: bytes) -> str:
        """All of `data` as one line, instructions parted by `; `."""
        return "; ".join(self.text(insn) for insn in self.decode(address, data))

    def name(self, address: int) -> str | None:
        """`symbol` or `symbol+0x5`, None where nothing has a name."""
        symbol = self._symbols.lookup(address)
        if symbol is None:
            return None
        offset = address - symbol.address
        return f"{symbol.name}+0x{offset:x}" if offset else symbol.name

    def _decode(self, address: int, data: bytes) -> list[Insn]:
        engine = self._open()
        found: list[Insn] = []
        step = self._facts.insn_align
        at = 0
        while at < len(data):
            insns = list(engine.disasm(data[at:], address + at))
            found += [self._insn(insn) for insn in insns]
            at += sum(insn.size for insn in insns)
            if at < len(data):
                raw = data[at : at + step]
                found.append(
                    Insn(
                        address + at,
                        raw,
                        ".byte",
                        ", ".join(f"0x{b:02x}" for b in raw),
                        None,
                        False,
                    )
                )
                at += len(raw)
        return found

    def _insn(self, insn: CsInsn) -> Insn:
        target = None
        groups = (CS_GRP_CALL, CS_GRP_JUMP, CS_GRP_BRANCH_RELATIVE)
        if insn.operands and any(insn.group(group) for group in groups):
            last = insn.operands[-1]
            if last.type == CS_OP_IMM:
                target = last.imm % (1 << 8 * self._facts.pointer_size)
        return Insn(
            insn.address,
            bytes(insn.bytes),
            insn.mnemonic,
            insn.op_str,
            target,
            returns=bool(insn.group(CS_GRP_RET)),
        )

    def _open(self) -> Cs:
        if self._engine is None:
            engine = self._facts.engine
            self._engine = Cs(engine.cs_arch, engine.cs_mode)
            self._engine.detail = True
        return self._engine
