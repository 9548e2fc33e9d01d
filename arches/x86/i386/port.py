"""The i386 port: facts; the verbs are in ../port.py.

Addresses have 32 bits: the first 3 GB belong to processes and the last GB to the kernel. Its text
is at 0xc1000000, in RAM, which ends at 0xf8000000. Then come vmalloc space, with the modules, and
fixed mappings at the very end. A `call rel32` reaches all of it (../insn.py).

Calls follow the kernel's own convention (`-mregparm=3`): the first arguments are in eax, edx and
ecx, the others on the stack, the result in eax; the caller removes the arguments from the stack.
The stack is aligned to 4 bytes (`-mpreferred-stack-boundary=2`). Interrupts use the same stack,
because there is no red zone.

Sources: System V ABI, Intel386 supplement, chapter 3; GCC's manual, "x86 Options";
the kernel's arch/x86/Makefile and arch/x86/include/asm/pgtable_32_areas.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_32
from unicorn.unicorn_const import UC_MODE_32

from ....core.arch import Effect
from ....core.elf.relocate import RelocationAbi
from ....core.facts import Abi, AddressMap, CallSites, Facts
from ....core.methods import PATCH_METHODS
from .. import port as x86
from ..insn import REL32_SIZE
from ..kprobes import X86Probes
from . import reloc

_ARGUMENTS = ("eax", "edx", "ecx")
_PT_REGS = ("eax", "ebx", "ecx", "edx", "esi", "edi", "ebp", "eip", "eflags", "esp")

FACTS = Facts(
    name="i386",
    elf_machine=3,  # EM_386
    pointer_size=4,
    byteorder="little",
    engine=x86.engine(UC_MODE_32, CS_MODE_32, "KS_MODE_32"),
    abi=Abi(
        pc=x86.register("eip"),
        sp=x86.register("esp"),
        arguments=tuple(x86.register(name) for name in _ARGUMENTS),
        result=x86.register("eax"),
        pt_regs=tuple(x86.register(name) for name in _PT_REGS),
        link=None,
        stack_align=4,
        red_zone=0,
        call_frame=0,
        stack_arguments=3,
        results=(x86.register("eax"), x86.register("edx")),
        volatile=dict.fromkeys(_ARGUMENTS, 2**32 - 1) | {"eflags": x86.FLAGS},
        probe_names={name: f"e{name}" for name in x86.PROBE_NAMES},
        floats=tuple(x86.register(f"xmm{number}") for number in range(8)),
        controls=(
            (x86.register("eflags"), x86.INTERRUPTS_ON),
            (x86.register("mxcsr"), x86.MXCSR),
            (x86.register("fpcw"), x86.FPCW),
        ),
    ),
    map=AddressMap(
        local=0xFFFF_8000,
        tracer=0xC800_0000,
        modules=0xF880_0000,
        modules_end=0xFF80_0000,
        ring_buffer=0xE000_0000,
        hashes=0xE800_0000,
        hashes_end=0xF000_0000,
        direct_map=0xD000_0000,
        host_stack=0xD800_0000,
    ),
    sites=CallSites(
        size=REL32_SIZE,
        sections=("__mcount_loc", "__patchable_function_entries"),
        mcount_symbols=("__fentry__", "mcount"),
        call_relocations=frozenset({2, 4}),  # R_386_PC32, R_386_PLT32
        relocation_offset=-1,  # the field follows the opcode
        clobbers=frozenset({"eflags"}),
        patterns=x86.PATTERNS,
        max_offset=4,  # endbr, if any
        landing_pad=bytes.fromhex("f3 0f 1e fb"),  # endbr32
    ),
    patch_methods=PATCH_METHODS,
    breakpoint=x86.BREAKPOINT,
    nops=("nop",),
    max_insn_size=x86.MAX_INSN_SIZE,
    insn_align=1,
    self_jump=x86.SELF_JUMP,
)


PROBES = X86Probes(x86.BREAKPOINT, CS_MODE_32, 32)


@dataclass(frozen=True, slots=True)
class I386Port(x86.X86Port):
    """i386; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI

    @property
    def probes(self) -> X86Probes | None:
        """How kprobes are placed at any instruction."""
        return PROBES

    def enter_variadic(
        self, code: bytes, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect | None:
        """Return a call with all arguments on the stack, if `code` takes them from there."""
        from .arguments import all_on_stack

        if not all_on_stack(function, code, len(arguments)):
            return None
        abi = self.facts.abi
        by_stack = replace(abi, arguments=(), stack_arguments=abi.most_arguments)
        port = I386Port(replace(self.facts, abi=by_stack))
        return port.enter_call(function, arguments, sp, return_to)


def port() -> I386Port:
    """The port, as `arches.load` finds it."""
    return I386Port()
