"""What the x86 ports share: the verbs, the emulator's and the tools' constants.

Whatever the width of a word, a call site is one `call rel32` and one nop of the
same size (insn.py), a call pushes its return address, and `int3` is the
breakpoint. Arguments that have no register lie on the stack, above that address.
A port adds its facts and its relocations.

Sources: as in insn.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from capstone import CS_ARCH_X86
from keystone.keystone_const import KS_ARCH_X86
from numpy.typing import NDArray
from unicorn import x86_const
from unicorn.unicorn_const import UC_ARCH_X86

from ...core.arch import Addresses, Bytes, Edit, Effect, Relocations, Sites
from ...core.crash import Crash
from ...core.encoding import Encoding
from ...core.facts import Breakpoint, Engine, Facts, Register
from . import encoding, insn, oops

PATCH_METHODS = ("stop_machine", "breakpoint", "none")
BREAKPOINT = Breakpoint(insn=insn.INT3, interrupt=3, reported_at=1)
MAX_INSN_SIZE = 15


def register(name: str) -> Register:
    """A register by its name in the manual."""
    number: int = getattr(x86_const, f"UC_X86_REG_{name.upper()}")
    return Register(name, number)


def engine(uc_mode: int, cs_mode: int, ks_mode: int) -> Engine:
    """Emulator, disassembler and assembler for words of the size that the modes say."""
    return Engine(
        uc_arch=UC_ARCH_X86,
        uc_mode=uc_mode,
        cs_arch=CS_ARCH_X86,
        cs_mode=cs_mode,
        ks_arch=KS_ARCH_X86,
        ks_mode=ks_mode,
    )


@dataclass(frozen=True, slots=True)
class X86Port(ABC):
    """An x86 port; see `core.arch.Port` for what each verb owes."""

    facts: Facts

    @property
    def bits(self) -> int:
        """Of an address."""
        return 8 * self.facts.pointer_size

    @property
    def nops(self) -> Mapping[int, bytes]:
        """The nops of this width, by their sizes in bytes."""
        return insn.NOPS64 if self.bits == 64 else insn.NOPS32

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """The table names the call itself."""
        return addresses

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Nothing: sites reach ftrace_caller themselves."""
        return None

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """From `call mcount`, or the nop of `-mnop-mcount`, to the nop."""
        expected, reachable = self._call(sites, mcount)
        nop = np.frombuffer(insn.NOP5, np.uint8)
        already = (sites.compiled == nop).all(axis=1)
        expected[already] = nop
        return Edit(sites.ip, expected, self._nop(sites), reachable | already)

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """From `call target` to the nop."""
        expected, reachable = self._call(sites, target)
        return Edit(sites.ip, expected, self._nop(sites), reachable)

    def make_call(self, sites: Sites, target: int) -> Edit:
        """From the nop to `call target`."""
        replacement, reachable = self._call(sites, target)
        return Edit(sites.ip, self._nop(sites), replacement, reachable)

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """From `call old` to `call new`."""
        expected, was = self._call(sites, old)
        replacement, reachable = self._call(sites, new)
        return Edit(sites.ip, expected, replacement, reachable & was)

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """From `call old` to `call new` at the slot."""
        return self.modify_call(Sites(np.array([slot], np.uint64)), old, new)

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """From the nop to `call caller` at the slot."""
        site = Sites(np.array([slot], np.uint64))
        replacement, reachable = self._call(site, caller)
        nop = np.frombuffer(self.nops[insn.REL32_SIZE], np.uint8)
        return Edit(site.ip, nop[None, :], replacement, reachable)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Nothing but what cannot be encoded: this kernel prints the bytes alone."""
        return "out of reach of a call rel32 (+-2 GB)" if expected == found else ""

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Where a call or jump with a fixed target goes."""
        target = insn.rel32_target(ip, text, self.bits)
        return target if target is not None else insn.jmp8_target(ip, text, self.bits)

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """The bit fields of the instruction at `ip`; None for one that is not known."""
        return encoding.encoding(ip, text, self.bits)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Do the nop, call or jump `text`; raises `ValueError` for anything else."""
        pc, sp, word = self.facts.abi.pc.name, self.facts.abi.sp.name, self.facts.pointer_size
        target = self.call_target(ip, text)
        if target is None:
            size = insn.nop_size(text, self.nops)
            if not size:
                raise ValueError(f"no call site text: {text.hex(' ')}")
            return Effect({pc: ip + size})
        if text[0] != insn.CALL:
            return Effect({pc: target})
        top = registers[sp] - word
        back = (ip + insn.REL32_SIZE).to_bytes(word, "little")
        return Effect({pc: target, sp: top}, ((top, back),))

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """The registers of a call, and what lies on the stack: where it returns to, arguments."""
        abi, word = self.facts.abi, self.facts.pointer_size
        if len(arguments) > abi.most_arguments:
            raise ValueError(f"a call takes at most {abi.most_arguments} arguments")
        values = [value % (1 << self.bits) for value in arguments]
        pushed = values[len(abi.arguments) :]
        top = sp - word * len(pushed)
        top -= top % abi.stack_align + word
        registers = {abi.pc.name: function, abi.sp.name: top}
        for register, value in zip(abi.arguments, values, strict=False):
            registers[register.name] = value
        stack = b"".join(value.to_bytes(word, "little") for value in (return_to, *pushed))
        return Effect(registers, ((top, stack),))

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """All of it."""
        return np.full(len(sites), self.facts.sites.size, np.intp)

    def with_nop(self, name: str) -> Self:
        """There is one form only."""
        if name not in self.facts.nops:
            raise ValueError(f"no nop {name!r}")
        return self

    def has_delay_slot(self, text: bytes) -> bool:
        """No branch has one."""
        return False

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Not asked for: the emulator tells of each trap."""
        return address

    def is_return_address(self, before: bytes) -> bool:
        """Whether `before` ends in a direct or indirect call."""
        return insn.ends_in_call(before)

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """The report in the words of the x86 kernel."""
        return oops.report(crash, self.facts)

    @property
    def stubs(self) -> None:
        """Modules lie within reach of the kernel."""
        return None

    @abstractmethod
    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations to one section's bytes."""

    @abstractmethod
    def relocation_name(self, kind: int) -> str:
        """The ABI's name of a relocation type."""

    def entry_source(self) -> str:
        """The text of entry.S."""
        return (self.folder / "entry.S").read_text(encoding="utf-8")

    def images(self) -> Path:
        """The folder of built images."""
        return self.folder / "images"

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the files of this port lie."""

    def _call(self, sites: Sites, target: int) -> tuple[Bytes, NDArray[np.bool_]]:
        """`call target` at each site, and which sites reach it."""
        return insn.call(sites.ip, np.full(len(sites), target, np.uint64), self.bits)

    def _nop(self, sites: Sites) -> Bytes:
        """The nop that disables each site."""
        nop = np.frombuffer(self.nops[insn.REL32_SIZE], np.uint8)
        return np.tile(nop, (len(sites), 1))
