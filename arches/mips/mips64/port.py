"""The mips64 port: 64 bits, big-endian, n64. Facts; the verbs are in ../port.py.

The kernel is linked at 0xffffffff80200000, an address that is sign-extended from 32 bits
(`-msym32`). So its code loads an address as 32-bit code does, and a far call has five words here
too; without `-msym32` it would have nine. Modules are at 0xffffffffc0000000. `-pg` calls
`_mcount` after the prologue, with a nop in the delay slot, because n64 takes no stack for it.

Source: MIPSpro N32/N64 ABI Handbook, chapter 2.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from capstone import CS_MODE_MIPS64
from unicorn.unicorn_const import UC_MODE_MIPS64

from ....core.elf.relocate import RelocationAbi
from ....core.facts import Abi, Facts
from .. import callsite, insn
from .. import port as mips
from ..callsite import Form
from . import reloc

REGISTERS = mips.registers(mips.N64)

FACTS = Facts(
    name="mips64",
    elf_machine=8,  # EM_MIPS
    pointer_size=8,
    byteorder="big",
    engine=mips.engine("big", UC_MODE_MIPS64, CS_MODE_MIPS64, "KS_MODE_MIPS64"),
    abi=Abi(
        pc=mips.PC,
        sp=REGISTERS[insn.SP],
        arguments=REGISTERS[4:12],
        result=REGISTERS[2],
        results=REGISTERS[2:4],
        volatile=mips.volatile(mips.N64),
        floats=mips.FLOATS,
        controls=((mips.STATUS, 0x2040_0005),),  # interrupts on
        pt_regs=REGISTERS,
        link=REGISTERS[insn.RA],
        stack_align=16,
        red_zone=0,
        call_frame=0,
    ),
    map=replace(
        mips.address_map(8),
        ring_buffer=0x9800_0000_4000_0000,
        hashes=0x9800_0001_0000_0000,
        hashes_end=0x9800_0002_0000_0000,
    ),
    sites=replace(mips.SITES, size=callsite.WIDE * insn.WORD),
    patch_methods=("stop_machine", "none"),
    breakpoint=None,
    nops=("b", "nop"),
    max_insn_size=insn.CALL,
    insn_align=insn.WORD,
    example=mips.EXAMPLE,
    unwritable=errno.EFAULT,  # safe_store_code()
    self_jump=insn.pack("big", insn.b(0)),
)

FORM = Form(order="big", bits=64, slot=insn.NOP)

MCOUNT = (insn.jr(insn.RA), insn.move(insn.RA, insn.AT))
"""All instructions of mcount."""


@dataclass(frozen=True, slots=True)
class Mips64Port(mips.MipsPort):
    """mips64; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    mcount: tuple[int, int] = MCOUNT
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI


def port() -> Mips64Port:
    """The port, as `arches.load` finds it."""
    return Mips64Port()
