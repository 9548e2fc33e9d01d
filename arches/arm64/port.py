"""The verbs of both ports, and the facts they share.

A call passes up to eight arguments in x0..x7 and returns its result in x0; x8 is the address of
a result that does not fit. sp is aligned to 16 bytes whenever it is used as an address. x30 is
the return address. x29 points to a frame record: the caller's x29, and x30 as it was at the
entry. 0 ends the chain. There is no red zone.

`pt_regs` is the kernel's user_pt_regs: x0..x30, sp, pc, pstate.

The kernel is linked at 0xffff800008000000. Modules are in the 128 MB below it, where a branch
reaches the kernel and the tracer, or, on request, far above it, out of reach. All memory
appears at 0xffff000000000000. The CPU-local pages are at the end of the address space, so that
one instruction makes their address.

Sources: as in insn.py; Documentation/arm64/memory.rst of Linux 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from capstone import CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN
from unicorn import arm64_const
from unicorn.unicorn_const import UC_ARCH_ARM64, UC_MODE_ARM

from ...core.arch import Addresses, Calls, Edit, Effect, KernelText, Sites
from ...core.crash import Crash
from ...core.elf.relocate import RelocationAbi
from ...core.encoding import Encoding
from ...core.facts import (
    Abi,
    AddressMap,
    CallSites,
    Counter,
    Engine,
    ExampleSite,
    Facts,
    FlatHeader,
    Frames,
    Register,
)
from ...core.port.base_port import BasePort
from . import callsite, encoding, insn, oops, reloc, stub
from .callsite import Form
from .kprobes import Arm64Probes

GENERAL = tuple(
    Register(f"x{n}", getattr(arm64_const, f"UC_ARM64_REG_X{n}")) for n in range(insn.LR + 1)
)
SP = Register("sp", arm64_const.UC_ARM64_REG_SP)
PC = Register("pc", arm64_const.UC_ARM64_REG_PC)
PSTATE = Register("pstate", arm64_const.UC_ARM64_REG_PSTATE)
LINK = GENERAL[insn.LR]

SP_EL0 = Register("sp_el0", arm64_const.UC_ARM64_REG_SP_EL0)
MSR_SP_EL0 = 0xD518_4100
"""`msr sp_el0, x0`; the register is in the low five bits."""

CONTROLS = (
    (PSTATE, 0x4000_0005),  # EL1h, interrupts on
    (Register("fpcr", arm64_const.UC_ARM64_REG_FPCR), 0),
    (SP_EL0, 0xFFFF_0000_0012_3000),  # current
    (Register("tpidr_el0", arm64_const.UC_ARM64_REG_TPIDR_EL0), 0xAAAA_0000_0000),
    (Register("tpidr_el1", arm64_const.UC_ARM64_REG_TPIDR_EL1), 0x1234_5000),  # per-CPU data
)
"""Registers that control the CPU, with values of kernel code."""

COUNTERS = {
    (word | row).to_bytes(4, "little"): Counter(
        (register.number,),
        tick_ns=16,  # cntfrq_el0 is 62.5 MHz
    )
    for word in (0xD53B_E020, 0xD53B_E040)  # mrs of cntpct_el0 and cntvct_el0
    for row, register in enumerate(GENERAL)
}

HARDWARE = (
    r"wfi|hvc|smc|eret|at |mrs \w+, (?:icc_(?!pmr)|pm|cnt[hkp]\w*_(?:ctl|cval|tval)|cntv_)"
    r"|msr (?!daif|sp_el0|spsel|tpidr|tpidrro|nzcv|fpcr|fpsr|pan|uao|ssbs|dit|icc_pmr)"
)
"""Writes to system registers; all use of the interrupt controller, timers and event counters; and
calls of a hypervisor. Left out: registers of the running thread, and interrupt masks."""

ENGINE = Engine(
    uc_arch=UC_ARCH_ARM64,
    uc_mode=UC_MODE_ARM,
    cs_arch=CS_ARCH_ARM64,
    cs_mode=CS_MODE_LITTLE_ENDIAN,
    ks_arch="KS_ARCH_ARM64",
    ks_mode=("KS_MODE_LITTLE_ENDIAN",),
    cs_parts={"fp": "x29", "lr": "x30", **{f"w{n}": f"x{n}" for n in range(insn.LR + 1)}},
    cs_hardware=HARDWARE,
    traps=oops.TRAPS,
    counters=COUNTERS,
)

ABI = Abi(
    pc=PC,
    sp=SP,
    arguments=GENERAL[:8],
    result=GENERAL[0],
    results=GENERAL[:8],
    volatile={register.name: 2**64 - 1 for register in GENERAL[:19]} | {"pstate": 0xF000_0000},
    floats=tuple(Register(f"q{n}", getattr(arm64_const, f"UC_ARM64_REG_Q{n}")) for n in range(32)),
    controls=CONTROLS,
    pt_regs=(*GENERAL, SP, PC, PSTATE),
    link=LINK,
    stack_align=16,
    red_zone=0,
    call_frame=0,
    frames=Frames(
        GENERAL[insn.FP], link=8, words={0: "frame record: caller's x29", 8: "frame record: lr"}
    ),
    saves_link_late=True,
)

MAP = AddressMap(
    local=0xFFFF_FFFF_FFFF_8000,
    tracer=0xFFFF_8000_0900_0000,
    modules=0xFFFF_8000_0200_0000,
    modules_end=0xFFFF_8000_0800_0000,
    ring_buffer=0xFFFF_8001_0000_0000,
    hashes=0xFFFF_8002_0000_0000,
    hashes_end=0xFFFF_8002_8000_0000,
    direct_map=0xFFFF_0000_0000_0000,
    host_stack=0xFFFF_8000_C000_0000,
)


def facts(name: str, sites: CallSites, example_offset: int) -> Facts:
    """Return the facts of the port `name`; `example_offset` is that of its example site."""
    return Facts(
        name=name,
        elf_machine=183,  # EM_AARCH64
        pointer_size=8,
        byteorder="little",
        engine=ENGINE,
        abi=ABI,
        map=MAP,
        sites=sites,
        patch_methods=("stop_machine", "none"),
        breakpoint=None,
        nops=("nop",),
        max_insn_size=insn.WORD,
        insn_align=insn.WORD,
        example=ExampleSite("usb_ifnum_to_if", example_offset, module="usbcore"),
        self_jump=insn.pack(insn.b(0)),
        modules_far=(0xFFFF_8000_2000_0000, 0xFFFF_8000_4000_0000),
        relative=reloc.RELATIVE,
        flat=FlatHeader(b"ARM\x64", 0x38, size_at=16),
    )


@dataclass(frozen=True, slots=True)
class Arm64Port(BasePort):
    """The verbs of an arm64 port; see `core.arch.Port` for the contract of each."""

    form: Form
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI

    def unbooted(self, kernel: KernelText) -> Mapping[Register, int]:
        """Return SP_EL0, the current task: init_task, as `__primary_switched` sets it.

        Before CPU 0 has its own copy, per-CPU data is where it is linked: TPIDR_EL1 is 0.
        """
        task = kernel.address("init_task")
        if task is None:
            task = insn.address_before(*kernel.text("__primary_switched"), MSR_SP_EL0)
        return {} if task is None else {SP_EL0: task}

    def is_return_address(self, before: bytes) -> bool:
        """Return whether `before` ends in a branch that sets x30."""
        return len(before) >= insn.WORD and insn.is_call(insn.word_at(before[-insn.WORD :]))

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """Return the report of a fault."""
        return oops.report(crash, self.facts)

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return the bit fields of the instruction at `ip`; None for an unknown one."""
        return encoding.encoding(ip, text)

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """Return the address of the branch of each site; the table names the site's start."""
        return addresses + np.uint64(self.form.lead)

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a `bl` to `target` at each site, and the nop that disables it."""
        return callsite.calls(sites, target)

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """Return the first change of each site, from the text of the compiler or module loader."""
        return callsite.init_nop(self.form, sites, mcount)

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """Return the edit from a nop to `b caller` at the slot, one word."""
        site = Sites(np.array([slot], np.uint64))
        return callsite.jumps(site, caller).make_call(site)

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return the target of a B or BL."""
        return callsite.call_target(ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of the site `text`. Raises `ValueError` for any other text."""
        return callsite.emulate(ip, text)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return why a site is refused."""
        return callsite.explain(ip, expected, found)

    @property
    def probes(self) -> Arm64Probes | None:
        """How kprobes are placed at any instruction."""
        return Arm64Probes()

    @property
    def stubs(self) -> stub.Stubs:
        """How veneers are made, for modules out of reach."""
        return stub.Stubs()
