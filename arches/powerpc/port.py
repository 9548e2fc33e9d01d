"""The verbs of both ports, and the facts they share.

A call passes up to eight arguments in r3..r10 and returns its result in r3; r1 is the stack
pointer, and LR holds the return address. A frame begins with its back chain, the address of the
caller's frame; 0 ends the chain. A callee saves LR and CR in the frame of its caller, so the
first call needs a frame too.

`pt_regs` has the kernel's names: nip for the program counter, and ctr, lr, xer and cr after the
general registers.

Sources: as in insn.py; System V ABI, PowerPC Processor Supplement, chapter 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from capstone import CS_ARCH_PPC, CS_MODE_BIG_ENDIAN
from unicorn import ppc_const
from unicorn.unicorn_const import UC_ARCH_PPC, UC_MODE_BIG_ENDIAN, UC_MODE_PPC64

from ...core.arch import Calls, Edit, Effect, Sites, Stubs
from ...core.crash import Crash
from ...core.encoding import Encoding
from ...core.facts import Counter, Engine, Register
from ...core.port.base_port import BasePort
from . import callsite, encoding, insn, oops
from .callsite import Form

GENERAL = tuple(Register(f"r{n}", ppc_const.UC_PPC_REG_0 + n) for n in range(32))
NIP = Register("nip", ppc_const.UC_PPC_REG_PC)
CTR = Register("ctr", ppc_const.UC_PPC_REG_CTR)
LR = Register("lr", ppc_const.UC_PPC_REG_LR)
XER = Register("xer", ppc_const.UC_PPC_REG_XER)
CR = Register("cr", ppc_const.UC_PPC_REG_CR)

PT_REGS = (*GENERAL, NIP, CTR, LR, XER, CR)
SP, ARGUMENTS, RESULT = GENERAL[1], GENERAL[3:11], GENERAL[3]
RESULTS = GENERAL[3:5]
FLOATS = tuple(Register(f"f{n}", ppc_const.UC_PPC_REG_FPR0 + n) for n in range(32))

MSR = Register("msr", ppc_const.UC_PPC_REG_MSR)
FPSCR = Register("fpscr", ppc_const.UC_PPC_REG_FPSCR)

VOLATILE = {
    **{register.name: 2**64 - 1 for register in (GENERAL[0], *GENERAL[3:13], CTR)},
    "xer": 0xE000_0000,
    "cr": 0xFF00_0FFF,  # all but cr2 to cr4
}
"""Registers that a function may change, with the bits it may change, for either word size."""


def controls(msr: int) -> tuple[tuple[Register, int], ...]:
    """Return the registers that control the CPU; `msr` is the machine state of kernel code."""
    return ((MSR, msr), (FPSCR, 0))


SELF_JUMP = insn.pack(insn.b(0))


HARDWARE = r"tlb|slb|h?rfi|mtsr|doze|nap|sleep|rvwinkle|l[bhwd]zcix|st[bhwd]cix"
"""Instructions that reach the MMU or I/O past the caches, sleep, or return from an interrupt."""


TICK_NS = 2
"""Virtual ns of one tick of the time base."""


def _counters(bits: int) -> dict[bytes, Counter]:
    """Return MFTB and MFTBU by their bytes, and MFSPR of the same two halves of the time base."""
    registers = [getattr(ppc_const, f"UC_PPC_REG_{number}") for number in range(32)]
    halves = {0x7C0C_42E6: TICK_NS, 0x7C0C_42A6: TICK_NS}  # all of it on 64-bit
    halves |= {0x7C0D_42E6: TICK_NS << 32, 0x7C0D_42A6: TICK_NS << 32}
    return {
        (word | row << 21).to_bytes(4, "big"): Counter((register,), bits=bits, tick_ns=tick_ns)
        for word, tick_ns in halves.items()
        for row, register in enumerate(registers)
    }


def engine(uc_mode: int, cs_mode: int, ks_mode: str) -> Engine:
    """Return the emulator, disassembler and assembler for the word size of the modes."""
    return Engine(
        uc_arch=UC_ARCH_PPC,
        uc_mode=uc_mode | UC_MODE_BIG_ENDIAN,
        cs_arch=CS_ARCH_PPC,
        cs_mode=cs_mode | CS_MODE_BIG_ENDIAN,
        ks_arch="KS_ARCH_PPC",
        ks_mode=(ks_mode, "KS_MODE_BIG_ENDIAN"),
        ks_registers=r"[rf](?:[12]?[0-9]|3[01])|cr[0-7]",
        ks_prefix="%",
        cs_returns=frozenset({"blr"}),
        cs_calls=frozenset({"bl", "bla", "bctrl", "blrl"}),
        cs_own_target=r"b(?:[lgn][te]|eq|n[lgsu]|so|un|dn?z[tf]?)l?[+-]?",
        cs_hardware=HARDWARE,
        counters=_counters(64 if uc_mode == UC_MODE_PPC64 else 32),
        traps=oops.TRAPS,
    )


@dataclass(frozen=True, slots=True)
class PowerPort(BasePort, ABC):
    """The verbs of a PowerPC port; see `core.arch.Port` for the contract of each."""

    form: Form

    @property
    def bits(self) -> int:
        """Width of an address, in bits."""
        return 8 * self.facts.pointer_size

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """Return the registers of a call, and the caller's frame, which ends the back chain."""
        effect = BasePort.enter_call(self, function, arguments, sp, return_to)
        frame = effect.registers[SP.name]
        return replace(effect, stores=((frame, bytes(self.facts.pointer_size)),))

    def is_return_address(self, before: bytes) -> bool:
        """Return whether `before` ends in a branch that sets LR."""
        return len(before) >= insn.WORD and insn.is_call(insn.word_at(before[-insn.WORD :]))

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """Return the report of a fault."""
        return oops.report(crash, self.facts)

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return the bit fields of the instruction at `ip`; None for an unknown one."""
        return encoding.encoding(ip, text, 1 << self.bits)

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a call of `target` at each site, and the nops or the `b` that disable it."""
        return callsite.calls(self.form, sites, target)

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """Return the first change of each site, from the call of the compiler or module loader."""
        return self.make_nop(sites, mcount)

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """Return the edit from `bl old` to `bl new` at the slot, one word."""
        site = Sites(np.array([slot], np.uint64))
        was, shall = (callsite.calls(callsite.SLOT, site, target) for target in (old, new))
        return was.modify_call(site, shall)

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """Return the edit from a nop to `bl caller` at the slot, one word."""
        site = Sites(np.array([slot], np.uint64))
        return callsite.calls(callsite.SLOT, site, caller).make_call(site)

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return the target of a direct branch; None for other instructions."""
        return callsite.call_target(self.bits, ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of `text`, nops or a `bl`. Raises `ValueError` for other text."""
        return callsite.emulate(self.form, self.bits, ip, text)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return why a site is refused."""
        return callsite.explain(ip, expected, found)

    def with_nop(self, name: str) -> Self:
        """Return this port with `nop`, or with `b`, a branch over the load after a stub's call."""
        self.check_nop(name)
        return replace(self, form=replace(self.form, branch_over=name == "b"))

    @property
    @abstractmethod
    def stubs(self) -> Stubs:
        """How the stubs of modules are made."""
