"""x86-64 relocations of modules: number, formula, field; addends are in the relocation (RELA).

GCC's kernel flags (`-mcmodel=kernel -fno-pic`) promise that code and data are in the top 2 GB,
so most fields are 32 bits wide and sign-extended by the CPU.

Source: System V ABI, AMD64 supplement, section 4.4 "Relocation".
"""

from __future__ import annotations

from ....core.elf.relocate import (
    WORD32,
    WORD64,
    RelocationAbi,
    RelocationType,
    absolute,
    relative,
    signed,
    unsigned,
)

TYPES = {
    1: RelocationType(WORD64, absolute),  # R_X86_64_64     S + A
    2: RelocationType(WORD32, relative, fits=signed(32)),  # R_X86_64_PC32   S + A - P
    # No PLT in a kernel: the procedure is reached directly.
    4: RelocationType(WORD32, relative, fits=signed(32)),  # R_X86_64_PLT32  L + A - P with L = S
    10: RelocationType(WORD32, absolute, fits=unsigned(32)),  # R_X86_64_32  S + A, zero-extended
    11: RelocationType(WORD32, absolute, fits=signed(32)),  # R_X86_64_32S   S + A, sign-extended
    24: RelocationType(WORD64, relative),  # R_X86_64_PC64   S + A - P
}

ABI = RelocationAbi(
    prefix="R_X86_64_",
    enum="ENUM_RELOC_TYPE_x64",
    types=TYPES,
    bits=64,
    byteorder="little",
    explicit=True,
    more={41: "R_X86_64_GOTPCRELX"},  # the table has only its sibling 42
)
