"""The verbs of all MIPS ports, and the facts they share.

A function gets its first arguments in a0-a3, on n64 in a0-a7, and returns its result in v0; ra
is the return address, sp the stack pointer. On o32 a caller leaves 16 bytes at sp for the
callee to store its four arguments. There is no red zone, and frames are not chained. `pt_regs`
has the kernel's order: the general registers, hi, lo and the program counter, which the kernel
calls epc.

All memory is in segments in which the emulator executes code and supports `ll` and `sc`. As on
real hardware, the kernel is in kseg0, untranslated, from 0x80000000 up, and modules are in
kseg2. A 64-bit kernel built with `-msym32` is in the same segments, with sign-extended
addresses. The CPU-local pages are at the end of the address space, so that a load with a 16-bit
displacement from zero reaches them.

Sources: as in insn.py; MIPSpro N32/N64 ABI Handbook, chapter 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from capstone import CS_ARCH_MIPS, CS_MODE_BIG_ENDIAN, CS_MODE_LITTLE_ENDIAN
from numpy.typing import NDArray
from unicorn import mips_const
from unicorn.unicorn_const import (
    UC_ARCH_MIPS,
    UC_MODE_BIG_ENDIAN,
    UC_MODE_LITTLE_ENDIAN,
    UC_MODE_MIPS32,
    UC_MODE_MIPS64,
)

from ...core.arch import Calls, Edit, Effect, KernelText, Sites
from ...core.crash import Crash
from ...core.encoding import Encoding
from ...core.facts import (
    AddressMap,
    Branches,
    CallSites,
    Counter,
    Engine,
    ExampleSite,
    LongBlocks,
    Register,
    SitePattern,
)
from ...core.port.base_port import BasePort
from . import callsite, encoding, insn, oops
from .callsite import Form
from .trapped import trapped_at

O32 = (
    *("zero", "at", "v0", "v1", "a0", "a1", "a2", "a3"),
    *("t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"),
    *("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"),
    *("t8", "t9", "k0", "k1", "gp", "sp", "s8", "ra"),
)
"""Names of the general registers."""

N64 = (*O32[:8], "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", *O32[16:])
"""Names of the general registers on n64, which passes eight arguments."""

PC = Register("pc", mips_const.UC_MIPS_REG_PC)
_BEHIND = (
    Register("hi", mips_const.UC_MIPS_REG_HI),
    Register("lo", mips_const.UC_MIPS_REG_LO),
    PC,
)

R_MIPS_26, R_MIPS_HI16 = 4, 5
"""Relocation types of near calls, and of the first word of far ones."""


def registers(names: Sequence[str]) -> tuple[Register, ...]:
    """Return `pt_regs` with the general registers called `names`."""
    first = mips_const.UC_MIPS_REG_0
    return (*(Register(name, first + number) for number, name in enumerate(names)), *_BEHIND)


def volatile(names: Sequence[str]) -> dict[str, int]:
    """Return the registers that a function may change, if the general ones are called `names`."""
    return dict.fromkeys((*names[1:16], "t8", "t9", "hi", "lo"), 2**64 - 1)


FLOATS = tuple(Register(f"f{number}", mips_const.UC_MIPS_REG_F0 + number) for number in range(32))


STATUS = Register("status", mips_const.UC_MIPS_REG_CP0_STATUS)


N64_NAMES = {
    "fp": "s8",
    **{f"t{number}": f"a{number + 4}" for number in range(4)},
    **{f"t{number + 4}": f"t{number}" for number in range(4)},
}
"""n64 names of registers 8 to 15 by their o32 names, which Capstone prints."""

BRANCHES = {
    UC_MODE_MIPS32: Branches(context=11236, offset=11196, mask=0x0087_F800),
    UC_MODE_MIPS64: Branches(context=16028, offset=15980, mask=0x0087_F800),
}
"""`CPUMIPSState.hflags` and `MIPS_HFLAG_BMASK` of Unicorn 2.1.4."""


CPUS = {
    UC_MODE_MIPS32: mips_const.UC_CPU_MIPS32_4KEC,
    UC_MODE_MIPS64: mips_const.UC_CPU_MIPS64_MIPS64R2_GENERIC,
}
"""CPUs with release 2 of the architecture and without MIPS16, in which an odd address would
start code of another encoding."""


SAFE_BLOCK = 300
"""Instructions of a block that does not run out of temporaries. The emulator has 512: registers
take 150, each instruction one, and it dies at the 362nd instruction (on 32 bits, the 376th). The
blocks of the guest's tracers are shorter; hooks would make them four times as slow."""


HARDWARE = r"d?mtc0 \$\w+, \$(?!t4, 0)|tlb|wait|d?eret"
"""Writes to coprocessor 0, except to Status (register 12, which masks interrupts), and instructions
that reach the TLB or wait for an interrupt. Capstone prints its registers by general names."""


def counters(order: Literal["little", "big"]) -> dict[bytes, Counter]:
    """Return MFC0 of Count (register 9) by its bytes; it counts every second cycle of 5 ns."""
    return {
        (0x4000_4800 | row << 16).to_bytes(insn.WORD, order): Counter(
            (mips_const.UC_MIPS_REG_0 + row,), bits=32, tick_ns=10
        )
        for row in range(1, 32)
    }


def engine(order: str, uc_mode: int, cs_mode: int, ks_mode: str) -> Engine:
    """Return the emulator, disassembler and assembler for one byte order and word size."""
    big = order == "big"
    return Engine(
        uc_arch=UC_ARCH_MIPS,
        uc_mode=uc_mode | (UC_MODE_BIG_ENDIAN if big else UC_MODE_LITTLE_ENDIAN),
        cs_arch=CS_ARCH_MIPS,
        cs_mode=cs_mode | (CS_MODE_BIG_ENDIAN if big else CS_MODE_LITTLE_ENDIAN),
        ks_arch="KS_ARCH_MIPS",
        ks_mode=(ks_mode, "KS_MODE_BIG_ENDIAN" if big else "KS_MODE_LITTLE_ENDIAN"),
        ks_registers=r"zero|at|v[01]|a[0-7]|t[0-9]|s[0-8]|k[01]|gp|sp|fp|ra",
        ks_prefix="$",
        ks_prelude=".set noreorder; .set noat;",
        ks_branches=r"b|bal|beqz?l?|bnez?l?|b[gl][te]z(?:al)?l?",
        ks_branch_bits=18,
        ks_jumps="jal?",
        uc_cpu=CPUS[uc_mode],
        branches=BRANCHES[uc_mode],
        long_blocks=LongBlocks(most=SAFE_BLOCK, ends=insn.BLOCK_ENDS),
        # After an exception during a translation, such as a fetch from data, the emulator uses a
        # temporary of that translation in the next one and dies.
        survives_exceptions=False,
        cs_names=N64_NAMES if uc_mode == UC_MODE_MIPS64 else {"fp": "s8"},
        cs_returns=frozenset({"jr"}),
        cs_calls=frozenset({"jal", "bal", "bgezal", "bltzal", "bgezall", "bltzall", "jalr"}),
        cs_hardware=HARDWARE,
        counters=counters("big" if big else "little"),
        traps=oops.TRAPS,
    )


def address_map(width: int) -> AddressMap:
    """Return the address map for addresses of `width` bytes."""
    high = (1 << 8 * width) - (1 << 32)
    return AddressMap(
        local=high + 0xFFFF_8000,
        tracer=high + 0x8120_0000,
        modules=high + 0xC000_0000,
        modules_end=high + 0xC800_0000,
        ring_buffer=high + 0xD000_0000,
        hashes=high + 0xE000_0000,
        hashes_end=high + 0xE800_0000,
        direct_map=high + 0x8200_0000,
        host_stack=high + 0x8A00_0000,
        window=1 << 28,  # jal
    )


def patterns(order: str) -> tuple[SitePattern, ...]:
    """Return the text of a kernel's sites in byte order `order`."""
    jal, slot = (0x0C00_0000, 0xFC00_0000), (0x27BD_FFF8, 2**32 - 1)  # addiu sp, sp, -8
    return (SitePattern.of_words(order, jal, slot),)


SITES = CallSites(
    size=callsite.FARTHEST * insn.WORD,
    sections=("__mcount_loc",),
    mcount_symbols=("_mcount",),
    call_relocations=frozenset({R_MIPS_26, R_MIPS_HI16}),
    relocation_offset=0,
    linked_stubs={
        "_mcount_trampoline": "_mcount",
        "ftrace_caller_trampoline": "ftrace_caller",
    },
    # Registers that any call may change, except v0: it may hold the static chain.
    clobbers=frozenset({"at", *(f"t{number}" for number in range(10)), "hi", "lo"}),
)


EXAMPLE = ExampleSite("usb_ifnum_to_if", module="usbcore")


@dataclass(frozen=True, slots=True)
class MipsPort(BasePort):
    """The verbs of a MIPS port; see `core.arch.Port` for the contract of each."""

    form: Form
    mcount: tuple[int, int]
    """The first instructions of the kernel's mcount, which only undo the call."""

    def has_delay_slot(self, text: bytes) -> bool:
        """Return whether `text` begins with a jump or a branch."""
        return len(text) >= insn.WORD and insn.has_delay_slot(insn.word_at(text, self.form.order))

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Return the address of the instruction of `block` that must have trapped."""
        bits, modulus = self.form.bits, 1 << self.form.bits
        general = [0, *(registers[each.name] for each in self.facts.abi.pt_regs[1:32])]
        values = [value - (value >> (bits - 1) << bits) for value in general]
        words = [insn.word_at(block, self.form.order, at) for at in range(0, len(block), insn.WORD)]
        return trapped_at(number, values, address, words) % modulus

    def is_return_address(self, before: bytes) -> bool:
        """Return whether `before` ends in a call and its delay slot."""
        call = before[-insn.CALL :]
        return len(call) == insn.CALL and insn.is_call(insn.word_at(call, self.form.order))

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """Return the report of a fault."""
        return oops.report(crash, self.facts)

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return the bit fields of the instruction at `ip`; None for an unknown one."""
        names = [register.name for register in self.facts.abi.pt_regs[:32]]
        return encoding.encoding(ip, text, self.facts.byteorder, names, 1 << self.form.bits)

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """Return the registers of a call; on o32, the fifth and later arguments are on the stack.

        They are above the room for the first four.
        """
        abi, word = self.facts.abi, self.facts.pointer_size
        if len(arguments) > abi.most_arguments:
            raise ValueError(f"a call takes at most {abi.most_arguments} arguments")
        first, more = arguments[: len(abi.arguments)], arguments[len(abi.arguments) :]
        below = sp - word * len(more)
        effect = super(MipsPort, self).enter_call(function, first, below, return_to)
        if not more:
            return effect
        order: Literal["little", "big"] = "big" if self.form.order == "big" else "little"
        values = [value % (1 << 8 * word) for value in more]
        pushed = b"".join(value.to_bytes(word, order) for value in values)
        return replace(effect, stores=((effect.registers["sp"] + abi.call_frame, pushed),))

    def unbooted(self, kernel: KernelText) -> Mapping[Register, int]:
        """Return $28, the thread_info of the first task, as `kernel_entry` sets it.

        Its LUI and ADDIU are after `__kernel_entry`, which jumps there, or in `kernel_entry`.
        """
        if self.facts.pointer_size != insn.WORD:
            return {}
        start, text = kernel.text("__kernel_entry")
        entry = self.call_target(start, text[: insn.CALL]) if text else None
        _, code = kernel.text("kernel_entry" if entry is None else entry)
        gp = insn.loaded(code, insn.GP, self.form.order)
        register = next(each for each in self.facts.abi.pt_regs if each.name == "gp")
        return {} if gp is None else {register: gp}

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Return the edit that makes mcount jump to `caller`, for far sites."""
        place = np.array([mcount], np.uint64)
        jump, reachable = insn.j_type(insn.J, place, np.array([caller], np.uint64))
        words = (self.mcount, (int(jump[0]), insn.NOP))
        was, shall = (insn.bytes_of(np.array([row], np.uint32), self.form.order) for row in words)
        return Edit(place, was, shall, reachable)

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a call of `target` at each site, and the branch or nops that disable it."""
        return callsite.calls(self.form, sites, target)

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """Return the first change of each site, from the compiled call of `mcount`."""
        compiled = callsite.calls(replace(self.form, nop=callsite.NAIVE), sites, mcount)
        nops = callsite.calls(self.form, sites, mcount).nops
        return replace(compiled, nops=nops).make_nop(sites)

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """Return the edit from `jal old` to `jal new` at the slot, without its delay slot."""
        site = Sites(np.array([slot], np.uint64))
        was, shall = (callsite.slot_calls(self.form, site, target) for target in (old, new))
        return was.modify_call(site, shall)

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """Return the edit from a nop to `jal caller` at the slot; its delay slot has a nop."""
        site = Sites(np.array([slot], np.uint64))
        return callsite.slot_calls(self.form, site, caller).make_call(site)

    def redirect_stub(self, code: bytes, target: int) -> bytes | None:
        """Return the linked stub `code` with another address in its first two instructions."""
        high, low = insn.halves(target)
        words = (insn.word_at(code, self.form.order, at) for at in (0, insn.WORD))
        halves = [
            word & ~0xFFFF | half & 0xFFFF for word, half in zip(words, (high, low), strict=True)
        ]
        return insn.pack(self.form.order, *halves) + code[2 * insn.WORD :]

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return the target of a direct jump, or of one to an address that was just loaded."""
        return callsite.call_target(self.form, ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of a near site's nops or `jal`. Raises `ValueError` for other text."""
        return callsite.emulate(self.form, registers, ip, text)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return why a site is refused."""
        return callsite.explain(self.form, ip, expected, found)

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """Return the size in bytes of each site: two words if near, five to nine if far."""
        return callsite.lengths(self.form, sites) * insn.WORD

    def with_nop(self, name: str) -> Self:
        """Return this port with another way to disable sites.

        `b` is a branch over the call; `nop` makes all words nops, which is unsafe on purpose;
        `linux`, only with 32 bits, writes the two words that Linux writes.
        """
        self.check_nop(name)
        return replace(self, form=replace(self.form, nop=name))
