"""Architectures without a port: their kernels can be read, but not run.

These are the facts needed for reading: how a file is recognised, what is at a call site, and how
Capstone decodes it. They are of the kernels that Linux distributions build today.

Sources: the architectures' ftrace.h and ftrace.c; the ABIs named in each comment.
"""

from __future__ import annotations

from dataclasses import dataclass

from capstone import (
    CS_ARCH_ARM,
    CS_ARCH_PPC,
    CS_ARCH_RISCV,
    CS_ARCH_SYSZ,
    CS_MODE_64,
    CS_MODE_ARM,
    CS_MODE_BIG_ENDIAN,
    CS_MODE_LITTLE_ENDIAN,
    CS_MODE_RISCV64,
    CS_MODE_RISCVC,
)

from ..core.arch import Addresses
from ..core.facts import CallSites, ElfFlags, FlatHeader, SitePattern

_ALL = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Readable:
    """The facts of one architecture; `core.facts.FileFacts` explains each of them."""

    name: str
    elf_machine: int
    pointer_size: int
    byteorder: str
    sites: CallSites
    max_insn_size: int
    insn_align: int
    cs_arch: int
    cs_mode: int
    elf_flags: ElfFlags | None = None
    relative: int | None = None
    flat: FlatHeader | None = None

    @property
    def facts(self) -> Readable:
        """These facts, where those of a port are expected."""
        return self

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """Return rec.ip of each entry of a list: the entry itself."""
        return addresses


def _sites(
    size: int, mcount: str, calls: set[int], *patterns: SitePattern, most: int | None = None
) -> CallSites:
    """Return the facts of call sites of `size` bytes that match any of `patterns`."""
    return CallSites(
        size=size,
        sections=("__mcount_loc", "__patchable_function_entries"),
        mcount_symbols=(mcount,),
        call_relocations=frozenset(calls),
        relocation_offset=0,
        patterns=patterns,
        max_offset=most,
    )


ARM = Readable(
    name="arm",
    elf_machine=40,  # EM_ARM
    pointer_size=4,
    byteorder="little",
    # push {lr}; bl __gnu_mcount_nc
    sites=_sites(
        4,
        "__gnu_mcount_nc",
        {28},  # R_ARM_CALL
        SitePattern.of_words("little", (0xE52D_E004, _ALL), (0xEB00_0000, 0xFF00_0000), offset=-4),
    ),
    max_insn_size=4,
    insn_align=4,
    cs_arch=CS_ARCH_ARM,
    cs_mode=CS_MODE_ARM,
    relative=23,  # R_ARM_RELATIVE
    flat=FlatHeader(b"\x18\x28\x6f\x01", 0x24),  # of the zImage
)

PPC64LE = Readable(
    name="ppc64le",
    elf_machine=21,  # EM_PPC64
    pointer_size=8,
    byteorder="little",
    # mflr r0; bl _mcount, or with std r0,16(r1) between them
    sites=_sites(
        4,
        "_mcount",
        {10},  # R_PPC64_REL24
        SitePattern.of_words("little", (0x7C08_02A6, _ALL), (0x4800_0001, 0xFC00_0003), offset=-4),
        SitePattern.of_words(
            "little",
            (0x7C08_02A6, _ALL),
            (0xF801_0010, _ALL),
            (0x4800_0001, 0xFC00_0003),
            offset=-8,
        ),
        most=16,
    ),
    max_insn_size=4,
    insn_align=4,
    cs_arch=CS_ARCH_PPC,
    cs_mode=CS_MODE_64 | CS_MODE_LITTLE_ENDIAN,
    relative=22,  # R_PPC64_RELATIVE
)

RISCV64 = Readable(
    name="riscv64",
    elf_machine=243,  # EM_RISCV
    pointer_size=8,
    byteorder="little",
    # Room for auipc and jalr: four c.nop, or two nop without compressed instructions.
    sites=_sites(
        8,
        "_mcount",
        {18, 19},  # R_RISCV_CALL, R_RISCV_CALL_PLT
        SitePattern(bytes.fromhex("0100") * 4, b"\xff" * 8),
        SitePattern(bytes.fromhex("13000000") * 2, b"\xff" * 8),
    ),
    max_insn_size=4,
    insn_align=2,
    cs_arch=CS_ARCH_RISCV,
    cs_mode=CS_MODE_RISCV64 | CS_MODE_RISCVC,
    relative=3,  # R_RISCV_RELATIVE
    flat=FlatHeader(b"RSC\x05", 0x38, size_at=16),
)

S390X = Readable(
    name="s390x",
    elf_machine=22,  # EM_S390
    pointer_size=8,
    byteorder="big",
    # brcl 0,. as -mnop-mcount leaves it, or brasl %r0,__fentry__
    sites=_sites(
        6,
        "__fentry__",
        {19, 20},  # R_390_PC32DBL, R_390_PLT32DBL
        SitePattern(bytes.fromhex("c00400000000"), b"\xff" * 6),
        SitePattern(bytes.fromhex("c005"), b"\xff" * 2),
    ),
    max_insn_size=6,
    insn_align=2,
    cs_arch=CS_ARCH_SYSZ,
    cs_mode=CS_MODE_BIG_ENDIAN,
    relative=12,  # R_390_RELATIVE
    flat=FlatHeader(b"S390EP", 0x10008),  # of the decompressor
)

READABLE = (ARM, PPC64LE, RISCV64, S390X)
