"""Disassembly of real sites, of bytes that are none, and of nothing."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.elf.symbols import Symbol
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


def test_what_is_no_branch_has_no_target() -> None:
    (insn,) = disassembler().decode(IP, bytes.fromhex("0f1f440000"))
    assert insn.target is None
    assert disassembler().text(insn) == "nop dword ptr [rax + rax]"
    (jump,) = disassembler().decode(IP, bytes.fromhex("ffe0"))
    assert jump.target is None


def test_every_byte_is_shown() -> None:
    data = bytes.fromhex("90 06 90 e8 00 00")
    insns = disassembler().decode(IP, data)
    assert b"".join(insn.data for insn in insns) == data
    assert [insn.mnemonic for insn in insns][:3] == ["nop", ".byte", "nop"]
    assert [insn.decoded for insn in insns][:3] == [True, False, True]
    assert insns[-1].end == IP + len(data)
    assert disassembler().decode(IP, b"") == ()


def test_the_same_bytes_are_decoded_once() -> None:
    disasm = disassembler()
    assert disasm.decode(IP, b"\x90\xc3") is disasm.decode(IP, b"\x90\xc3")
