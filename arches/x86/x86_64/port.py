"""The x86-64 port: facts; the verbs are in ../port.py.

Kernel text is at 0xffffffff81000000 and modules are at 0xffffffffa0000000, as in the years when
dynamic ftrace was written. All code is in the top 2 GB, so a `call rel32` reaches it
(../insn.py). Calls follow the System V ABI for AMD64: arguments in rdi, rsi, rdx, rcx, r8, r9,
the result in rax, the stack 16-byte aligned at a call. There is no red zone, because interrupts
use the same stack.

Sources: System V ABI, AMD64 supplement, section 3.2; the kernel's memory map
in Documentation/arch/x86/x86_64/mm.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_64
from unicorn.unicorn_const import UC_MODE_64

from ....core.arch import KernelText
from ....core.elf.relocate import RelocationAbi
from ....core.facts import Abi, AddressMap, CallSites, Facts, Register
from ....core.methods import PATCH_METHODS
from .. import port as x86
from ..insn import REL32_SIZE
from ..kprobes import X86Probes
from . import reloc, trampoline

_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_VOLATILE = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
_PT_REGS = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
    *("rip", "rflags", "rsp"),
)

FACTS = Facts(
    name="x86_64",
    elf_machine=62,  # EM_X86_64
    pointer_size=8,
    byteorder="little",
    engine=x86.engine(UC_MODE_64, CS_MODE_64, "KS_MODE_64"),
    abi=Abi(
        pc=x86.register("rip"),
        sp=x86.register("rsp"),
        arguments=tuple(x86.register(name) for name in _ARGUMENTS),
        result=x86.register("rax"),
        pt_regs=tuple(x86.register(name) for name in _PT_REGS),
        link=None,
        stack_align=16,
        red_zone=0,
        call_frame=0,
        results=(x86.register("rax"), x86.register("rdx")),
        volatile=dict.fromkeys(_VOLATILE, 2**64 - 1) | {"rflags": x86.FLAGS},
        probe_names={name: f"r{name}" for name in x86.PROBE_NAMES},
        floats=tuple(x86.register(f"xmm{number}") for number in range(16)),
        controls=(
            (x86.register("rflags"), x86.INTERRUPTS_ON),
            (x86.register("mxcsr"), x86.MXCSR),
            (x86.register("fpcw"), x86.FPCW),
            (x86.register("gs_base"), 0xFFFF_8880_0000_0000),
        ),
    ),
    map=AddressMap(
        local=0xFFFF_FFFF_FF57_8000,
        tracer=0xFFFF_FFFF_9000_0000,
        modules=0xFFFF_FFFF_A000_0000,
        modules_end=0xFFFF_FFFF_C000_0000,
        ring_buffer=0xFFFF_C900_0000_0000,
        hashes=0xFFFF_C980_0000_0000,
        hashes_end=0xFFFF_C980_8000_0000,
        direct_map=0xFFFF_8880_0000_0000,
        host_stack=0xFFFF_C9FF_0000_0000,
        window=1 << 31,  # -mcmodel=kernel
    ),
    sites=CallSites(
        size=REL32_SIZE,
        sections=("__mcount_loc", "__patchable_function_entries"),
        mcount_symbols=("__fentry__", "mcount"),
        call_relocations=frozenset({2, 4}),  # R_X86_64_PC32, R_X86_64_PLT32
        relocation_offset=-1,  # the field follows the opcode
        clobbers=frozenset({"rflags"}),
        patterns=x86.PATTERNS,
        max_offset=4,  # endbr, if any
        landing_pad=bytes.fromhex("f3 0f 1e fa"),  # endbr64
    ),
    patch_methods=PATCH_METHODS,
    breakpoint=x86.BREAKPOINT,
    nops=("nop",),
    max_insn_size=x86.MAX_INSN_SIZE,
    insn_align=1,
    self_jump=x86.SELF_JUMP,
)


PROBES = X86Probes(x86.BREAKPOINT, CS_MODE_64, 64)


@dataclass(frozen=True, slots=True)
class X8664Port(x86.X86Port):
    """x86-64; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI

    def unbooted(self, kernel: KernelText) -> Mapping[Register, int]:
        """Return the base of %gs: per-CPU data, which begins with the copy in the image.

        The linker places it at 0, and `INIT_PER_CPU_VAR` adds `__per_cpu_load`. The current task
        and the top of its stack are in it.
        """
        load, start = kernel.address("__per_cpu_load"), kernel.address("__per_cpu_start")
        if load is None or start is None:
            return {}
        return {x86.register("gs_base"): load - start}

    @property
    def probes(self) -> X86Probes | None:
        """How kprobes are placed at any instruction."""
        return PROBES

    @property
    def trampolines(self) -> trampoline.Copies | None:
        """How trampolines are made, one for each of several users."""
        return trampoline.Copies()


def port() -> X8664Port:
    """The port, as `arches.load` finds it."""
    return X8664Port()
