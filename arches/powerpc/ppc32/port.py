"""The ppc32 port: 32 bits, big-endian. Facts; the verbs are in ../port.py.

The kernel is linked at 0xc0000000. Modules are at 0xd1000000 and above, in the vmalloc space of
such a machine, farther than a branch reaches. `-pg` calls `_mcount` at the start of a function,
before it has a frame: LR already holds the return address into the function, and the return
address to its caller has just been saved at 4(r1), in the caller's frame.

Interrupts use the same stack; the ABI has no red zone below r1. The CPU-local pages are at the
end of the address space, so that a load with a 16-bit displacement from 0 reaches them.

Source: System V ABI, PowerPC Processor Supplement, chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_32
from unicorn.unicorn_const import UC_MODE_PPC32

from ....core.elf.relocate import RelocationAbi
from ....core.facts import Abi, AddressMap, CallSites, ExampleSite, Facts, Frames, SitePattern
from .. import port as power
from ..callsite import Form
from ..insn import WORD
from ..reloc import REL24
from . import reloc, stub

FACTS = Facts(
    name="ppc32",
    elf_machine=20,  # EM_PPC
    pointer_size=4,
    byteorder="big",
    engine=power.engine(UC_MODE_PPC32, CS_MODE_32, "KS_MODE_PPC32"),
    abi=Abi(
        pc=power.NIP,
        sp=power.SP,
        arguments=power.ARGUMENTS,
        result=power.RESULT,
        results=power.RESULTS,
        volatile=power.VOLATILE,
        floats=power.FLOATS,
        controls=power.controls(0x8040),  # interrupts on
        pt_regs=power.PT_REGS,
        link=power.LR,
        stack_align=16,
        red_zone=0,
        call_frame=8,  # back chain, LR
        frames=Frames(power.SP, link=4, of_caller=True, words={0: "back chain", 4: "LR save word"}),
        saves_link_late=True,
    ),
    map=AddressMap(
        local=0xFFFF_8000,
        tracer=0xC100_0000,
        modules=0xD100_0000,
        modules_end=0xD800_0000,
        ring_buffer=0xE000_0000,
        hashes=0xE800_0000,
        hashes_end=0xF000_0000,
        direct_map=0xC200_0000,
        host_stack=0xC700_0000,
    ),
    sites=CallSites(
        size=WORD,
        sections=("__mcount_loc",),
        mcount_symbols=("_mcount",),
        call_relocations=frozenset({REL24}),
        relocation_offset=0,
        patterns=(
            SitePattern.of_words(
                "big",
                *((0x7C08_02A6, 2**32 - 1), (0x9001_0004, 2**32 - 1)),  # mflr r0; stw r0,4(r1)
                (0x4800_0001, 0xFC00_0003),
                offset=-2 * WORD,
            ),
        ),
        # No function depends on the values of these at its entry, except a variadic one: its
        # cr1 says whether there are floating-point arguments.
        clobbers=frozenset({"r0", "ctr", "xer", "cr"}),
        kept={"cr": 0x0F00_0000},
    ),
    patch_methods=("stop_machine", "none"),
    breakpoint=None,
    nops=("nop",),
    max_insn_size=WORD,
    insn_align=WORD,
    example=ExampleSite("usb_ifnum_to_if", 8, module="usbcore"),
    self_jump=power.SELF_JUMP,
)

FORM = Form(direct=(), stub=(), prefer_stub=False)


@dataclass(frozen=True, slots=True)
class Ppc32Port(power.PowerPort):
    """ppc32; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI

    @property
    def stubs(self) -> stub.Stubs:
        """How stubs are made; they reach every address."""
        return stub.Stubs()


def port() -> Ppc32Port:
    """The port, as `arches.load` finds it."""
    return Ppc32Port()
