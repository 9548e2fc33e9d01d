"""The ppc64 port: 64 bits, big-endian, ELFv1. Facts; the verbs are in ../port.py.

The kernel is linked at 0xc000000000000000, as all 64-bit PowerPC kernels are. All memory appears
there too. Modules are in the vmalloc area at 0xd000000000000000, out of reach of any branch. A
function's address is that of its descriptor in `.opd`; the symbol of its code has a dot:
`.schedule`. `-pg` calls `._mcount` once the frame is made, like any function, with a nop after
the call.

A module that has a stub calls it, however near the target is, because the stub loads the
kernel's TOC pointer for the kernel's code.

The CPU-local pages are at the end of the address space, so that a load with a 16-bit
displacement from 0 reaches them.

Source: 64-bit PowerPC ELF ABI Supplement 1.9, chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_64
from unicorn.unicorn_const import UC_MODE_PPC64

from ....core.elf.relocate import RelocationAbi
from ....core.facts import (
    Abi,
    AddressMap,
    CallSites,
    ElfFlags,
    ExampleSite,
    Facts,
    Frames,
    SitePattern,
    Toc,
)
from .. import port as power
from ..callsite import Form
from ..insn import LD_R2, NOP, WORD
from ..reloc import REL24
from . import reloc, stub

FACTS = Facts(
    name="ppc64",
    elf_machine=21,  # EM_PPC64
    pointer_size=8,
    byteorder="big",
    engine=power.engine(UC_MODE_PPC64, CS_MODE_64, "KS_MODE_PPC64"),
    abi=Abi(
        pc=power.NIP,
        sp=power.SP,
        arguments=power.ARGUMENTS,
        result=power.RESULT,
        results=power.RESULTS,
        volatile=power.VOLATILE,
        floats=power.FLOATS,
        controls=power.controls(0x8000_0000_0000_8000),  # interrupts on
        pt_regs=power.PT_REGS,
        link=power.LR,
        stack_align=16,
        red_zone=288,  # room for r14..r31 and f14..f31, below r1 until the frame is made
        call_frame=112,  # back chain, CR, LR, two reserved, TOC; eight arguments
        frames=Frames(
            power.SP,
            link=16,
            of_caller=True,
            words={0: "back chain", 8: "CR save word", 16: "LR save word", 40: "TOC save slot"},
        ),
        saves_link_late=True,
        toc=Toc(register=power.GENERAL[2], opd=".opd", section=".toc", bias=0x8000, prefix="."),
    ),
    map=AddressMap(
        local=0xFFFF_FFFF_FFFF_8000,
        tracer=0xC000_0000_0100_0000,
        modules=0xD000_0000_0000_0000,
        modules_end=0xD000_0000_1000_0000,
        ring_buffer=0xC000_0000_8000_0000,
        hashes=0xC000_0001_0000_0000,
        hashes_end=0xC000_0001_8000_0000,
        direct_map=0xC000_0000_1000_0000,
        host_stack=0xC000_0000_4000_0000,
    ),
    sites=CallSites(
        size=2 * WORD,
        sections=("__mcount_loc",),
        mcount_symbols=("._mcount",),
        call_relocations=frozenset({REL24}),
        relocation_offset=0,
        # Registers that any call may change, except the arguments.
        patterns=(
            SitePattern.of_words("big", (0x4800_0001, 0xFC00_0003), (0x6000_0000, 2**32 - 1)),
        ),
        clobbers=frozenset({"r0", "r11", "r12", "ctr", "lr", "xer", "cr"}),
    ),
    patch_methods=("stop_machine", "none"),
    breakpoint=None,
    nops=("nop", "b"),
    max_insn_size=WORD,
    insn_align=WORD,
    example=ExampleSite("usb_ifnum_to_if", 0x1C, module="usbcore"),
    self_jump=power.SELF_JUMP,
    elf_flags=ElfFlags(mask=3, allowed=frozenset({0, 1}), name="ELFv1"),
)

FORM = Form(direct=(NOP,), stub=(LD_R2,), prefer_stub=True)


@dataclass(frozen=True, slots=True)
class Ppc64Port(power.PowerPort):
    """ppc64; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI

    @property
    def stubs(self) -> stub.Stubs:
        """How stubs are made; they change r2."""
        return stub.Stubs()


def port() -> Ppc64Port:
    """The port, as `arches.load` finds it."""
    return Ppc64Port()
