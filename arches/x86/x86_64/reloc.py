"""x86-64 relocations of modules: number, formula, field; addends stand in the relocation.

GCC's kernel flags (`-mcmodel=kernel -fno-pic`) promise that code and data lie in
the top 2 GB, so most fields are 32 bits wide and sign-extended by the CPU.

Source: System V ABI, AMD64 supplement, section 4.4 "Relocation".
"""

from __future__ import annotations

from elftools.elf.enums import ENUM_RELOC_TYPE_x64

from .. import reloc
from ..reloc import Type, absolute, relative

TYPES = {
    1: Type(absolute, 8, reloc.anything),  # R_X86_64_64     S + A
    2: Type(relative, 4, reloc.signed32),  # R_X86_64_PC32   S + A - P
    # No PLT in a kernel: the procedure is reached directly.
    4: Type(relative, 4, reloc.signed32),  # R_X86_64_PLT32  L + A - P with L = S
    10: Type(absolute, 4, reloc.unsigned32),  # R_X86_64_32   S + A, zero-extended
    11: Type(absolute, 4, reloc.signed32),  # R_X86_64_32S    S + A, sign-extended
    24: Type(relative, 8, reloc.anything),  # R_X86_64_PC64   S + A - P
}

_NAMES = {number: name for name, number in ENUM_RELOC_TYPE_x64.items() if name != "_default_"}
_NAMES[41] = "R_X86_64_GOTPCRELX"  # pyelftools has its sibling 42 only

ABI = reloc.Abi(prefix="R_X86_64_", names=_NAMES, types=TYPES, explicit=True)
