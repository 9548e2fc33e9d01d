"""The mips port: 32 bits, big-endian, o32. Facts; the verbs are in ../port.py.

The kernel is linked at 0x80200000, as on many boards, and modules are at 0xc0000000 and above.
These are two regions, so no `jal` of a module reaches the kernel. `-pg` calls `_mcount` after
the prologue, with 8 bytes of stack that the delay slot takes; `-mlong-calls` makes it a far
call.

Source: System V ABI, MIPS Processor Supplement, chapter 3.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_MIPS32
from unicorn.unicorn_const import UC_MODE_MIPS32

from ....core.elf.relocate import RelocationAbi
from ....core.facts import Abi, Engine, Facts
from .. import insn
from .. import port as mips
from ..callsite import Form
from . import reloc

REGISTERS = mips.registers(mips.O32)


def engine(order: str) -> Engine:
    """Return the emulator, disassembler and assembler for one byte order."""
    return mips.engine(order, UC_MODE_MIPS32, CS_MODE_MIPS32, "KS_MODE_MIPS32")


FACTS = Facts(
    name="mips",
    elf_machine=8,  # EM_MIPS
    pointer_size=4,
    byteorder="big",
    engine=engine("big"),
    abi=Abi(
        pc=mips.PC,
        sp=REGISTERS[insn.SP],
        arguments=REGISTERS[4:8],
        result=REGISTERS[2],
        results=REGISTERS[2:4],
        volatile=mips.volatile(mips.O32),
        floats=mips.FLOATS,
        controls=((mips.STATUS, 0x40_0005),),  # interrupts on
        pt_regs=REGISTERS,
        link=REGISTERS[insn.RA],
        stack_align=8,
        red_zone=0,
        stack_arguments=3,
        call_frame=16,  # room for the callee to store its four arguments
    ),
    map=mips.address_map(4),
    sites=replace(mips.SITES, patterns=mips.patterns("big")),
    patch_methods=("stop_machine", "none", "nmi_enter"),
    breakpoint=None,
    nops=("b", "nop", "linux"),
    max_insn_size=insn.CALL,
    insn_align=insn.WORD,
    example=mips.EXAMPLE,
    unwritable=errno.EFAULT,  # safe_store_code()
    self_jump=insn.pack("big", insn.b(0)),
)

FORM = Form(order="big", bits=32, slot=insn.ADDIU_SP)

MCOUNT = (insn.addiu(insn.SP, insn.SP, 8), insn.jr(insn.RA))
"""The next word, in the delay slot, is `move ra,at`."""


@dataclass(frozen=True, slots=True)
class Mips32Port(mips.MipsPort):
    """mips; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    mcount: tuple[int, int] = MCOUNT
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI["big"]


def port() -> Mips32Port:
    """The port, as `arches.load` finds it."""
    return Mips32Port()
