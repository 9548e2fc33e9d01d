"""Disassembly of real sites, of bytes that are not instructions, and of nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capstone import CS_ARCH_PPC, CS_MODE_32, CS_MODE_64, CS_MODE_BIG_ENDIAN

from dynftrace import arches
from dynftrace.core.elf.symbols import Symbol
from dynftrace.core.facts import Facts
from dynftrace.core.views.disasm import Disassembler

IP = 0xFFFF_FFFF_8100_1000
CALLER = 0xFFFF_FFFF_9000_0000


class Symbols:
    def lookup(self, address: int) -> Symbol | None:
        if CALLER <= address < CALLER + 0x100:
            return Symbol("ftrace_caller", CALLER, 0x100)
        return None


def disassembler() -> Disassembler:
    return Disassembler(arches.load("x86_64").facts, Symbols())


def call(target: int) -> bytes:
    return b"\xe8" + (target - IP - 5).to_bytes(4, "little", signed=True)


def test_a_call_names_its_target() -> None:
    disasm = disassembler()
    assert disasm.line(IP, call(CALLER)) == "call ftrace_caller"
    assert disasm.line(IP, call(CALLER + 4)) == "call ftrace_caller+0x4"
    (insn,) = disasm.decode(IP, call(CALLER))
    assert (insn.target, insn.end) == (CALLER, IP + 5)


def test_a_target_without_a_name_stays_a_number() -> None:
    assert disassembler().line(IP, call(IP + 0x100)) == f"call 0x{IP + 0x100:x}"


def test_only_branches_have_a_target() -> None:
    (insn,) = disassembler().decode(IP, bytes.fromhex("0f1f440000"))
    assert insn.target is None
    assert disassembler().text(insn) == "nop dword ptr [rax + rax]"
    (jump,) = disassembler().decode(IP, bytes.fromhex("ffe0"))
    assert jump.target is None


def test_the_first_instruction_has_a_size() -> None:
    disasm = disassembler()
    data = call(CALLER) + b"\x90"
    assert disasm.size(IP, data) == disasm.decode(IP, data)[0].end - IP == 5
    assert disasm.size(IP, b"\x06") == disasm.size(IP, b"") == 0  # no instruction in 64-bit mode


def test_every_byte_is_shown() -> None:
    data = bytes.fromhex("90 06 90 e8 00 00")
    insns = disassembler().decode(IP, data)
    assert b"".join(insn.data for insn in insns) == data
    assert [insn.mnemonic for insn in insns][:3] == ["nop", ".byte", "nop"]
    assert [insn.decoded for insn in insns][:3] == [True, False, True]
    assert insns[-1].end == IP + len(data)
    assert disassembler().decode(IP, b"") == ()


def test_equal_bytes_are_decoded_once() -> None:
    disasm = disassembler()
    assert disasm.decode(IP, b"\x90\xc3") is disasm.decode(IP, b"\x90\xc3")


def words(bits: int) -> Facts:
    """Return facts of a big-endian machine with word-sized instructions and no groups."""
    facts = arches.load("x86_64").facts
    engine = replace(
        facts.engine,
        cs_arch=CS_ARCH_PPC,
        cs_mode=(CS_MODE_64 if bits == 64 else CS_MODE_32) | CS_MODE_BIG_ENDIAN,
        cs_returns=frozenset({"blr"}),
        cs_calls=frozenset({"bl"}),
    )
    return replace(
        facts,
        engine=engine,
        byteorder="big",
        pointer_size=bits // 8,
        max_insn_size=4,
        insn_align=4,
    )


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("48000011", "bl ftrace_caller+0x10"),
        ("48000010", "b ftrace_caller+0x10"),
        ("41820010", "beq ftrace_caller+0x10"),
        ("409e0010", "bne cr7, ftrace_caller+0x10"),
        ("4bffffff", "bla 0x{:x}"),
        ("4bfffff1", "bl 0x{:x}"),
        ("60000000", "nop"),
        ("e8410028", "ld r2, 40(r1)"),
        ("9421ffe0", "stwu r1, -32(r1)"),
        ("398c5520", "addi r12, r12, 0x5520"),
        ("2fa30010", "cmpdi cr7, r3, 0x10"),
        ("4e800420", "bctr"),
        ("00000000", ".long 0x00000000"),
    ],
)
@pytest.mark.parametrize("bits", [32, 64])
def test_without_groups_branches_are_recognised_by_mnemonic(
    bits: int, word: str, text: str
) -> None:
    at = CALLER % 2**bits

    class Here:
        def lookup(self, address: int) -> Symbol | None:
            return Symbol("ftrace_caller", at, 0x100) if at <= address < at + 0x100 else None

    number = 2**bits - 4 if word == "4bffffff" else at - 16
    assert Disassembler(words(bits), Here()).line(at, bytes.fromhex(word)) == text.format(number)


def test_a_return_is_recognised_by_mnemonic() -> None:
    data = bytes.fromhex("4e800020 4d820020 4e800021")
    insns = Disassembler(words(32), Symbols()).decode(0xC000_0000, data)
    assert [insn.mnemonic for insn in insns] == ["blr", "beqlr", "blrl"]
    assert [insn.returns for insn in insns] == [True, False, False]


def test_data_is_filler_and_pointers_in_the_guests_byte_order() -> None:
    disasm = Disassembler(words(64), Symbols())
    data = (
        bytes(4) + CALLER.to_bytes(8, "big") + bytes.fromhex("00000000000080f0") + b"\x12\x34\x56"
    )
    found = disasm.words(IP + 4, data)
    assert b"".join(insn.data for insn in found) == data
    assert [disasm.text(insn, {0x80F0: "TOC"}) for insn in found] == [
        ".long 0x0",
        ".quad ftrace_caller",
        ".quad TOC",
        ".short 0x1234",
        ".byte 0x56",
    ]
    assert [insn.target for insn in found] == [None, CALLER, 0x80F0, None, None]
    assert not any(insn.decoded for insn in found)
    little = disassembler()
    (pointer,) = little.words(IP, CALLER.to_bytes(8, "little"))
    assert little.text(pointer) == ".quad ftrace_caller"
    (unknown,) = little.words(IP, IP.to_bytes(8, "little"))
    assert little.text(unknown) == f".quad 0x{IP:x}"


def test_a_32_bit_machine_has_32_bit_pointers() -> None:
    small = Disassembler(words(32), Symbols())
    data = bytes.fromhex("c0001000 00000000")
    assert [small.text(insn) for insn in small.words(0xD000_0000, data)] == [
        ".long 0xc0001000",
        ".long 0x0",
    ]
    assert [insn.target for insn in small.words(0xD000_0000, data)] == [0xC000_1000, None]
