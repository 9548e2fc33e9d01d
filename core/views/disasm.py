"""The disassembler for small ranges of machine code.

Capstone is opened at the first use. Bytes that it cannot decode become `.byte` or `.long`,
one smallest instruction at a time, so that the whole range is always shown. Names of
branch targets are looked up when text is made, since modules come and go. Data that code
loads does not go through Capstone: `words` cuts it into pointers and fillers.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
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

from ..elf.symbols import Symbol
from ..facts import Facts

_CACHED = 512
"""Number of decoded ranges in the cache."""

_DIRECTIVES = {8: ".quad", 4: ".long", 2: ".short", 1: ".byte"}
"""Directives of the GNU assembler, by size in bytes."""

_DISPLACEMENT = re.compile(r"-?0x[0-9a-f]+(?=\()")
"""The displacement of a memory operand `40(r1)`, which manuals write in decimal."""

_BRANCHES = (CS_GRP_CALL, CS_GRP_JUMP, CS_GRP_BRANCH_RELATIVE)


class SymbolLookup(Protocol):
    """Kallsyms, as far as the disassembler needs it."""

    def lookup(self, address: int) -> Symbol | None:
        """Return the symbol that covers `address`."""
        ...


@dataclass(frozen=True, slots=True)
class Insn:
    """One instruction, or bytes that are not an instruction."""

    address: int
    data: bytes
    mnemonic: str
    operands: str
    target: int | None = None
    """The address that it branches or points to, if it contains that address."""
    decoded: bool = True
    returns: bool = False
    """Whether it returns from a function."""
    branches: bool = False
    """Whether it is a jump, a call or a return."""
    calls: bool = False
    """Whether it is a call."""
    reads: tuple[str, ...] = ()
    """Registers that it reads without naming them as operands."""

    @property
    def end(self) -> int:
        """The address after it."""
        return self.address + len(self.data)


class Disassembler:
    """Decodes the instructions of one architecture."""

    def __init__(self, facts: Facts, symbols: SymbolLookup) -> None:
        self._facts = facts
        self._symbols = symbols
        self._engine: Cs | None = None
        self._cache: OrderedDict[tuple[int, bytes], tuple[Insn, ...]] = OrderedDict()

    def decode(self, address: int, data: bytes) -> tuple[Insn, ...]:
        """Return the instructions of all of `data` at `address`."""
        key = (address, bytes(data))
        known = self._cache.get(key)
        if known is None:
            known = self._cache[key] = tuple(self._decode(*key))
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return known

    def size(self, address: int, data: bytes) -> int:
        """Return the bytes of the first instruction of `data`; 0 if it is not an instruction."""
        first = next(self._open().disasm_lite(data, address, 1), None)
        return 0 if first is None else first[1]

    def site(self, address: int, data: bytes) -> tuple[Insn, ...]:
        """Return the instructions of `data`, a call site's text at `address`.

        If instructions differ in size, a jump to the site's end may be followed by half an
        instruction: these bytes are shown as part of the jump.
        """
        insns = self.decode(address, data)
        if (
            self._facts.insn_align == 1
            and len(insns) > 1
            and insns[0].target == address + len(data)
        ):
            return (replace(insns[0], data=bytes(data)),)
        return insns

    def words(self, address: int, data: bytes) -> tuple[Insn, ...]:
        """Return `data` at `address` as data that code loads: pointers and fillers."""
        size = self._facts.pointer_size
        found: list[Insn] = []
        at = 0
        while at < len(data):
            fitting = (each for each in _DIRECTIVES if each <= min(size, len(data) - at))
            width = next(each for each in fitting if not (address + at) % each)
            found.append(self._word(address + at, data[at : at + width]))
            at += width
        return tuple(found)

    def text(self, insn: Insn, names: Mapping[int, str] | None = None) -> str:
        """Return an instruction with the name of its target: `call ftrace_caller`.

        `names` has names for addresses without a symbol.
        """
        operands, target = insn.operands, insn.target
        if target is not None:
            name = (names or {}).get(target) or self.name(target)
            if insn.decoded:
                # The target is the last operand of a conditional branch too.
                operands = ", ".join([*operands.split(", ")[:-1], name or f"0x{target:x}"])
            elif name:
                operands = name
        return f"{insn.mnemonic} {operands}".rstrip()

    def line(self, address: int, data: bytes) -> str:
        """Return all of `data` as one line; `; ` separates instructions."""
        return "; ".join(self.text(insn) for insn in self.decode(address, data))

    def name(self, address: int) -> str | None:
        """Return `symbol` or `symbol+0x5`; None if no symbol covers the address."""
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
                found.append(self._undecoded(address + at, data[at : at + step]))
                at += len(found[-1].data)
        return found

    def _names(self, operands: str) -> str:
        """Return `operands` with the ABI's register names."""
        names = self._facts.engine.cs_names
        if not names:
            return operands
        return re.sub(r"(?<=\$)\w+", lambda match: names.get(match[0], match[0]), operands)

    def _undecoded(self, address: int, raw: bytes) -> Insn:
        """Return bytes that are not an instruction; a whole word if all instructions are words."""
        if len(raw) == self._facts.insn_align > 1:
            value = f"0x{self._int(raw):0{2 * len(raw)}x}"
            return Insn(address, raw, _DIRECTIVES[len(raw)], value, None, False)
        return Insn(address, raw, ".byte", ", ".join(f"0x{b:02x}" for b in raw), None, False)

    def _word(self, address: int, raw: bytes) -> Insn:
        """Return a word of data; a word of a pointer's size is a pointer unless it is 0."""
        value = self._int(raw)
        pointer = value if value and len(raw) == self._facts.pointer_size else None
        return Insn(address, raw, _DIRECTIVES[len(raw)], f"0x{value:x}", pointer, False)

    def _int(self, raw: bytes) -> int:
        return int.from_bytes(raw if self._facts.byteorder == "big" else raw[::-1], "big")

    def _insn(self, insn: CsInsn) -> Insn:
        target = None
        operands = self._names(insn.op_str)
        engine = self._facts.engine
        branches = insn.mnemonic in engine.cs_calls or any(map(insn.group, _BRANCHES))
        if insn.operands and branches:
            last = insn.operands[-1]
            if last.type == CS_OP_IMM:
                target = last.imm % (1 << 8 * self._facts.pointer_size)
        if target is None and re.fullmatch(engine.cs_own_target, insn.mnemonic):
            target = insn.address
            operands = f"{operands}, 0x{target:x}".removeprefix(", ")
        returns = insn.mnemonic in engine.cs_returns or bool(insn.group(CS_GRP_RET))
        return Insn(
            insn.address,
            bytes(insn.bytes),
            insn.mnemonic,
            _DISPLACEMENT.sub(lambda found: str(int(found[0], 16)), operands),
            target,
            returns=returns,
            branches=branches or returns,
            calls=insn.mnemonic in engine.cs_calls or bool(insn.group(CS_GRP_CALL)),
            reads=tuple(insn.reg_name(number) for number in insn.regs_read),
        )

    def _open(self) -> Cs:
        if self._engine is None:
            engine = self._facts.engine
            self._engine = Cs(engine.cs_arch, engine.cs_mode)
            self._engine.detail = True
        return self._engine
