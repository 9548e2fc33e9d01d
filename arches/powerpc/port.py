"""What the verbs of both ports are, and the facts they share.

Calls pass up to eight arguments in r3..r10, the result comes in r3; r1 is the
stack pointer, LR the way back. A frame begins with its back chain, the address
of the caller's; 0 ends the chain. What a callee saves of its caller's goes into
the frame of the caller, so there must be one before the first call.

`pt_regs` has the kernel's names: nip for the program counter, and ctr, lr, xer
and cr behind the general registers.

Sources: as in insn.py; System V ABI, PowerPC Processor Supplement, chapter 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from capstone import CS_ARCH_PPC, CS_MODE_BIG_ENDIAN
from keystone.keystone_const import KS_ARCH_PPC, KS_MODE_BIG_ENDIAN
from numpy.typing import NDArray
from unicorn import ppc_const
from unicorn.unicorn_const import UC_ARCH_PPC, UC_MODE_BIG_ENDIAN

from ...core.arch import Addresses, Edit, Effect, Relocations, Sites, Stubs
from ...core.crash import Crash
from ...core.encoding import Encoding
from ...core.facts import Engine, Facts, Register
from . import encoding, insn, oops
from .callsite import Form, calls, explain

GENERAL = tuple(Register(f"r{n}", ppc_const.UC_PPC_REG_0 + n) for n in range(32))
NIP = Register("nip", ppc_const.UC_PPC_REG_PC)
CTR = Register("ctr", ppc_const.UC_PPC_REG_CTR)
LR = Register("lr", ppc_const.UC_PPC_REG_LR)
XER = Register("xer", ppc_const.UC_PPC_REG_XER)
CR = Register("cr", ppc_const.UC_PPC_REG_CR)

PT_REGS = (*GENERAL, NIP, CTR, LR, XER, CR)
SP, ARGUMENTS, RESULT = GENERAL[1], GENERAL[3:11], GENERAL[3]


def engine(uc_mode: int, cs_mode: int, ks_mode: int) -> Engine:
    """Emulator, disassembler and assembler for words of the size that the modes say."""
    return Engine(
        uc_arch=UC_ARCH_PPC,
        uc_mode=uc_mode | UC_MODE_BIG_ENDIAN,
        cs_arch=CS_ARCH_PPC,
        cs_mode=cs_mode | CS_MODE_BIG_ENDIAN,
        ks_arch=KS_ARCH_PPC,
        ks_mode=ks_mode | KS_MODE_BIG_ENDIAN,
        ks_registers=r"[rf](?:[12]?[0-9]|3[01])|cr[0-7]",
        ks_prefix="%",
        cs_returns=frozenset({"blr"}),
        cs_calls=frozenset({"bl", "bla", "bctrl", "blrl"}),
        cs_own_target=r"b(?:[lgn][te]|eq|n[lgsu]|so|un|dn?z[tf]?)l?[+-]?",
        traps=oops.TRAPS,
    )


@dataclass(frozen=True, slots=True)
class PowerPort(ABC):
    """A PowerPC port; see `core.arch.Port` for what each verb owes."""

    facts: Facts
    form: Form

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """The table names the call itself."""
        return addresses

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Nothing: sites reach ftrace_caller themselves, or by a stub."""
        return None

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """From the call of `mcount` that the compiler, or the module loader, left."""
        return self.make_nop(sites, mcount)

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """From a call of `target` to nops."""
        was = calls(self.form, sites, target)
        return Edit(sites.ip, was.text, was.nops, was.reachable, (was.via,))

    def make_call(self, sites: Sites, target: int) -> Edit:
        """From nops to a call of `target`."""
        new = calls(self.form, sites, target)
        return Edit(sites.ip, new.nops, new.text, new.reachable, (new.via,))

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """From a call of `old` to a call of `new`."""
        return _modify(self.form, sites, old, new)

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """From `bl old` to `bl new` at the slot, one word."""
        return _modify(_SLOT, Sites(np.array([slot], np.uint64)), old, new)

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """From a nop to `bl caller` at the slot, one word."""
        new = calls(_SLOT, Sites(np.array([slot], np.uint64)), caller)
        return Edit(np.array([slot], np.uint64), new.nops, new.text, new.reachable)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Why a site is refused."""
        return explain(ip, expected, found)

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Where a branch with a fixed target goes."""
        if len(text) < insn.WORD:
            return None
        target = insn.branch_target(ip, insn.word_at(text))
        return None if target is None else target % self._modulus

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """The bit fields of the instruction at `ip`; None for one that is not known."""
        return encoding.encoding(ip, text, self._modulus)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Do the nops or the `bl` of the site `text`; raises `ValueError` for anything else.

        What stands behind a `bl` is done when the call has come back.
        """
        if text in (self.form.nops, self.form.stub_nops):
            return Effect({NIP.name: ip + len(text)})
        target = self.call_target(ip, text)
        behind = (insn.pack(*words) for words in (self.form.direct, self.form.stub))
        if target is None or not insn.is_bl(insn.word_at(text)) or text[insn.WORD :] not in behind:
            raise ValueError(f"no call site text: {text.hex(' ')}")
        return Effect({NIP.name: target, LR.name: ip + insn.WORD})

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """The registers of a call with up to eight arguments, and the caller's frame."""
        abi = self.facts.abi
        if len(arguments) > len(abi.arguments):
            raise ValueError(f"a call takes at most {len(abi.arguments)} arguments")
        frame = sp - abi.call_frame
        frame -= frame % abi.stack_align
        registers = {NIP.name: function, SP.name: frame, LR.name: return_to}
        for register, value in zip(abi.arguments, arguments, strict=False):
            registers[register.name] = value % self._modulus
        return Effect(registers, ((frame, bytes(self.facts.pointer_size)),))

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """All of it."""
        return np.full(len(sites), self.facts.sites.size, np.intp)

    def with_nop(self, name: str) -> Self:
        """`nop`, and where calls of stubs have something behind them `b`, a branch over it."""
        if name not in self.facts.nops:
            raise ValueError(f"no nop {name!r}")
        return replace(self, form=replace(self.form, branch_over=name == "b"))

    def has_delay_slot(self, text: bytes) -> bool:
        """No branch has one."""
        return False

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Not asked for: the emulator tells of each trap."""
        return address

    def is_return_address(self, before: bytes) -> bool:
        """Whether `before` ends in a branch that sets LR."""
        return len(before) >= insn.WORD and insn.is_call(insn.word_at(before[-insn.WORD :]))

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """The report of a fault."""
        return oops.report(crash, self.facts)

    @property
    @abstractmethod
    def stubs(self) -> Stubs:
        """How modules reach the kernel."""

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

    @property
    def _modulus(self) -> int:
        return 1 << (8 * self.facts.pointer_size)


_SLOT = Form(direct=(), stub=(), prefer_stub=False)
"""The slot of ftrace_caller, which the tracers lie near: a `bl`."""


def _modify(form: Form, sites: Sites, old: int, new: int) -> Edit:
    was, shall = calls(form, sites, old), calls(form, sites, new)
    reachable = was.reachable & shall.reachable
    return Edit(sites.ip, was.text, shall.text, reachable, (was.via, shall.via))
