"""Mistakes in the facts, in the table of relocations, and in the stubs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynftrace.core.arch import Function, Relocations
from dynftrace.core.elf.relocate import (
    Field,
    RelocationType,
    absolute,
    anything,
    either,
    relative,
    signed,
    whole,
)

from .mutant import AnyPort, Mutant, other, with_members


def _facts(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    return lambda true: with_members(true, facts=replace(true.facts, **changes))


def _sites(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    return lambda true: with_members(
        true, facts=replace(true.facts, sites=replace(true.facts.sites, **changes))
    )


def _abi(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    return lambda true: with_members(
        true, facts=replace(true.facts, abi=replace(true.facts.abi, **changes))
    )


def _trap(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    """Return a change of all traps of undefined instructions."""

    def change(true: AnyPort) -> AnyPort:
        engine = true.facts.engine
        traps = {
            number: replace(trap, **changes) if trap.illegal else trap
            for number, trap in engine.traps.items()
        }
        return with_members(true, facts=replace(true.facts, engine=replace(engine, traps=traps)))

    return change


def _breakpoint(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    return lambda true: with_members(
        true, facts=replace(true.facts, breakpoint=replace(true.facts.breakpoint, **changes))
    )


def _type(kind: int, **changes: Any) -> Callable[[AnyPort], AnyPort]:
    """Return a change of one row of the table of relocations."""

    def change(true: AnyPort) -> AnyPort:
        abi = true.relocation_abi
        row: RelocationType = replace(abi.types[kind], **changes)
        return with_members(true, relocation_abi=replace(abi, types={**abi.types, kind: row}))

    return change


def relocation(name: str, port: str, check: str, kind: int, **changes: Any) -> Mutant:
    """Return a mutant with a mistake in one type of relocation."""
    return Mutant(name, port, check, _type(kind, **changes))


def stub(name: str, port: str, check: str, change: Callable[..., bytes]) -> Mutant:
    """Return a mutant whose stubs are changed: `change` gets a stub and returns another."""

    def changed(true: AnyPort) -> AnyPort:
        stubs = true.stubs

        class Changed(type(stubs)):  # type: ignore[misc]
            __slots__ = ()

            def make(self, address: int, target: Function, toc: int) -> bytes:
                return change(stubs.make(address, target, toc))

        return with_members(true, stubs=property(lambda self: Changed()))

    return Mutant(name, port, check, changed)


def _no_stubs(true: AnyPort) -> AnyPort:
    stubs = true.stubs

    class Never(type(stubs)):  # type: ignore[misc]
        __slots__ = ()

        def needed(self, relocations: Relocations) -> Any:
            return np.zeros(len(relocations.kind), np.bool_)

    return with_members(true, stubs=property(lambda self: Never()))


def _with_word(text: bytes, at: int, word: str) -> bytes:
    return text[:at] + bytes.fromhex(word) + text[at + 4 :]


_FIELDS, _OVERFLOW = "relocation fields", "relocation overflow"

FACTS = (
    relocation("PC32 is not checked", "x86_64", _OVERFLOW, 2, fits=anything),
    relocation("32 is sign-extended", "x86_64", _OVERFLOW, 10, fits=signed(31)),
    relocation("32S accepts a bit too much", "x86_64", _OVERFLOW, 11, fits=signed(33)),
    relocation("PLT32 is not relative", "x86_64", "call relocations", 4, formula=absolute),
    relocation(
        "PC32 stores 24 bits", "i386", _OVERFLOW, 2, field=Field(4, 0xFF_FFFF), fits=signed(32)
    ),
    relocation("PC32 is not relative", "i386", "call relocations", 2, formula=absolute),
    relocation("32 loses its addend", "i386", _FIELDS, 1, addend=lambda fields: fields * 0),
    relocation(
        "REL24 overwrites AA and LK",
        "ppc64",
        "call relocations",
        10,
        field=Field(4, 0x03FF_FFFF),
        fits=signed(26),
    ),
    relocation("REL24 overwrites the opcode", "ppc64", _OVERFLOW, 10, field=Field(4, 0x07FF_FFFC)),
    relocation("REL24 accepts a bit too much", "ppc64", _OVERFLOW, 10, fits=signed(27, 4)),
    relocation("REL24 refuses the farther half", "ppc64", _OVERFLOW, 10, fits=signed(25, 4)),
    relocation("TOC16_HA does not round", "ppc64", _OVERFLOW, 50, part=lambda values: values >> 16),
    relocation(
        "TOC16_DS overwrites the opcode",
        "ppc64",
        _FIELDS,
        63,
        field=Field(2, 0xFFFF),
        part=whole,
    ),
    relocation("TOC16 is not checked", "ppc64", _OVERFLOW, 47, fits=anything),
    relocation("REL32 accepts unsigned values twice over", "ppc64", _OVERFLOW, 26, fits=either(33)),
    relocation("ADDR16_HA does not round", "ppc32", _FIELDS, 6, part=lambda values: values >> 16),
    relocation("26 counts bytes", "mips", _OVERFLOW, 4, part=whole),
    relocation(
        "26 is checked against 128 MB",
        "mips",
        "call relocations",
        4,
        fits=lambda values, places: ((values ^ (places + 4)) & -(1 << 27)) == 0,
    ),
    relocation(
        "26 is not checked",
        "mips",
        "call relocations",
        4,
        fits=lambda values, places: values % 4 == 0,
    ),
    relocation("HI16 does not round", "mips", "modules", 5, part=lambda values: values >> 16),
    relocation("PC16 accepts a bit too much", "mips", _OVERFLOW, 10, fits=signed(19, 4)),
    relocation("CALL26 accepts a bit too much", "arm64", _OVERFLOW, 283, fits=signed(29, 4)),
    relocation(
        "CALL26 overwrites the opcode", "arm64", _OVERFLOW, 283, field=Field(4, (1 << 27) - 1)
    ),
    relocation("ADR_PREL_PG_HI21 does not count pages", "arm64", "modules", 275, formula=relative),
    relocation("ADR_PREL_PG_HI21 is not checked", "arm64", _OVERFLOW, 275, fits=anything),
    relocation("ABS32 is signed only, of 31 bits", "arm64", _OVERFLOW, 258, fits=signed(31)),
    relocation("MOVW_UABS_G1 is not checked", "arm64", _OVERFLOW, 265, fits=anything),
    other(
        "other types are ignored",
        "arm64",
        "relocation errors",
        lambda true: with_members(
            true, relocation_abi=replace(true.relocation_abi, nothing=frozenset({0, 256, 0xABCD}))
        ),
    ),
    other(
        "relocations in the wrong byte order",
        "ppc64",
        "modules",
        lambda true: with_members(
            true, relocation_abi=replace(true.relocation_abi, byteorder="little")
        ),
    ),
    stub(
        "the stub's low half is not sign-extended",
        "ppc64",
        "stub code",
        lambda text: _with_word(
            text, 0, (int.from_bytes(text[:4], "big") - (text[6] >> 7)).to_bytes(4, "big").hex()
        ),
    ),
    stub(
        "the stub saves r2 at 48(r1)",
        "ppc64",
        "damaged stub",
        lambda text: _with_word(text, 8, "f8410030"),
    ),
    stub(
        "the stub does not save r2",
        "ppc64",
        "stub code",
        lambda text: _with_word(text, 8, "60000000"),
    ),
    stub(
        "the stub loads r2 from the entry",
        "ppc64",
        "stub code",
        lambda text: _with_word(text, 16, "e84c0020"),
    ),
    stub("the stub calls", "ppc32", "stub code", lambda text: _with_word(text, 12, "4e800421")),
    stub(
        "the stub uses r11 after all",
        "arm64",
        "stub code",
        lambda text: _with_word(text, 8, "60011fd6"),
    ),
    other("no call needs a stub", "ppc32", "out of reach", _no_stubs),
    other("no call needs a stub", "arm64", "out of reach", _no_stubs),
    other("an undefined instruction is left after it", "ppc64", "oops", _trap(reported_at=0)),
    other("an undefined instruction is left before it", "arm64", "oops", _trap(reported_at=4)),
    other("a breakpoint is left before it", "x86_64", "breakpoint", _breakpoint(reported_at=0)),
    other("the breakpoint is a hlt", "i386", "breakpoint", _breakpoint(insn=b"\xf4")),
    other(
        "sites are listed in another section", "x86_64", "modules", _sites(sections=(".rodata",))
    ),
    other("no callee-saved argument", "mips", "facts", _facts(nops=())),
    other(
        "sp is not in pt_regs",
        "i386",
        "facts",
        lambda true: _abi(pt_regs=true.facts.abi.pt_regs[:-1])(true),
    ),
    other(
        "pt_regs in the wrong order",
        "x86_64",
        "pt_regs",
        lambda true: _abi(
            pt_regs=(
                *true.facts.abi.pt_regs[1:2],
                true.facts.abi.pt_regs[0],
                *true.facts.abi.pt_regs[2:],
            )
        )(true),
    ),
    other(
        "sites may change an argument that they need",
        "x86_64",
        "registers kept",
        lambda true: with_members(
            true,
            facts=true.facts,
            entry_source=lambda self: true.entry_source().replace(
                "ftrace_caller:\n", "ftrace_caller:\n        xor r8d, r8d\n", 1
            ),
        ),
    ),
)
