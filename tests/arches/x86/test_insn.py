"""x86 encoders and decoders, checked with Capstone, the manual and an emulator."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import CS_ARCH_X86, CS_MODE_32, CS_MODE_64, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc, x86_const
from unicorn.unicorn_const import UC_ARCH_X86, UC_MODE_32, UC_MODE_64
from unicorn.x86_const import (
    UC_X86_REG_EIP,
    UC_X86_REG_ESP,
    UC_X86_REG_RIP,
    UC_X86_REG_RSP,
)

from dynftrace.arches.x86 import insn

TEXT = 0xFFFF_FFFF_8100_0000
LOW = 0x1_0000
"""An address of neither kernel, for tests that are the same in both widths."""


@dataclass(frozen=True)
class Width:
    """Properties of one address size."""

    bits: int
    cs_mode: int
    objdump: str
    nops: Mapping[int, bytes]


WIDE = Width(64, CS_MODE_64, "i386:x86-64", insn.NOPS64)
NARROW = Width(32, CS_MODE_32, "i386", insn.NOPS32)
WIDTHS = pytest.mark.parametrize("width", [WIDE, NARROW], ids=["64", "32"])

addresses = st.integers(TEXT, TEXT + 0x3FFF_FFFF)
anywhere32 = st.integers(0, 2**32 - 1)


def one(ip: int, target: int, opcode: int = insn.CALL, bits: int = 64) -> tuple[bytes, bool]:
    text, reach = insn.rel32(opcode, np.array([ip], np.uint64), np.array([target], np.uint64), bits)
    return text[0].tobytes(), bool(reach[0])


def decoded(text: bytes, ip: int, width: Width = WIDE) -> tuple[str, str, int]:
    """Return mnemonic, operands and size of the first instruction, by Capstone."""
    instruction = next(Cs(CS_ARCH_X86, width.cs_mode).disasm(text, ip))
    return instruction.mnemonic, instruction.op_str, instruction.size


def test_calls_forward_and_back_have_the_manuals_bytes() -> None:
    assert one(TEXT, TEXT + 5)[0] == bytes.fromhex("e8 00 00 00 00")
    assert one(TEXT, TEXT)[0] == bytes.fromhex("e8 fb ff ff ff")
    assert one(TEXT, TEXT + 0x105, insn.JMP)[0] == bytes.fromhex("e9 00 01 00 00")


@given(ip=addresses, target=addresses)
def test_calls_agree_with_capstone(ip: int, target: int) -> None:
    text, reach = one(ip, target)
    assert reach
    assert decoded(text, ip) == ("call", hex(target), 5)
    assert insn.rel32_target(ip, text) == target


@given(ip=addresses, target=addresses)
def test_jumps_agree_with_capstone(ip: int, target: int) -> None:
    text, reach = one(ip, target, insn.JMP)
    assert reach
    assert decoded(text, ip) == ("jmp", hex(target), 5)


@given(ip=anywhere32, target=anywhere32)
@pytest.mark.parametrize(("opcode", "name"), [(insn.CALL, "call"), (insn.JMP, "jmp")])
def test_with_32_bits_every_address_is_within_reach(
    opcode: int, name: str, ip: int, target: int
) -> None:
    text, reach = one(ip, target, opcode, bits=32)
    assert reach
    assert decoded(text, ip, NARROW) == (name, hex(target) if target > 9 else str(target), 5)
    assert insn.rel32_target(ip, text, 32) == target


def test_a_target_beyond_32_bits_is_refused() -> None:
    text, reach = one(0x1000, 2**32, bits=32)
    assert (text, reach) == (insn.INT3 * 5, False)


@pytest.mark.parametrize(
    ("distance", "reach"),
    [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False), (2**40, False)],
)
def test_calls_reach_two_gigabytes_each_way(distance: int, reach: bool) -> None:
    ip = 0x7F00_0000_0000
    text, reached = one(ip, ip + 5 + distance)
    assert reached is reach
    if not reach:
        assert text == insn.INT3 * 5


def test_many_sites_are_encoded_as_if_one_by_one() -> None:
    ips = np.array([TEXT, TEXT + 7, TEXT - 2**33], np.uint64)
    targets = np.array([TEXT + 64, TEXT, TEXT], np.uint64)
    text, reach = insn.call(ips, targets)
    assert reach.tolist() == [True, True, False]
    for row in range(2):
        assert text[row].tobytes() == one(int(ips[row]), int(targets[row]))[0]
    text, reach = insn.jmp(ips[:0], targets[:0])
    assert text.shape == (0, 5)


@WIDTHS
def test_each_nop_is_one_instruction_of_its_size(width: Width) -> None:
    assert list(width.nops) == list(range(1, len(width.nops) + 1))
    for size, nop in width.nops.items():
        mnemonic, operands, length = decoded(nop, LOW, width)
        assert length == size
        assert mnemonic in ("nop", "xchg") or (mnemonic, operands) in {
            ("mov", "esi, esi"),
            ("lea", "esi, [esi]"),
            ("lea", "esi, ds:[esi]"),
        }
        assert insn.nop_size(nop + b"\xcc", width.nops) == size


def test_the_disabled_site_is_the_kernels_nop() -> None:
    assert bytes.fromhex("0f 1f 44 00 00") == insn.NOP5 == insn.NOPS64[5]
    assert bytes.fromhex("3e 8d 74 26 00") == insn.NOPS32[5]
    assert insn.nop_size(b"\xe8\0\0\0\0", insn.NOPS64) == 0


@WIDTHS
def test_a_nop_changes_no_register_and_no_flag(width: Width) -> None:
    kinds = ("AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "FLAGS")
    first = "R" if width.bits == 64 else "E"
    registers = [getattr(x86_const, f"UC_X86_REG_{first}{kind}") for kind in kinds]
    for size, nop in width.nops.items():
        engine = Uc(UC_ARCH_X86, UC_MODE_64 if width.bits == 64 else UC_MODE_32)
        engine.mem_map(LOW, 0x1000)
        engine.mem_write(LOW, nop)
        for value, register in enumerate(registers):
            engine.reg_write(register, 0x2000_0000 + 0x1110 * value)
        before = [engine.reg_read(register) for register in registers]
        engine.emu_start(LOW, LOW + size)
        assert [engine.reg_read(register) for register in registers] == before


@pytest.mark.parametrize("distance", [-128, -2, 0, 127])
def test_short_jumps_are_encoded(distance: int) -> None:
    text = insn.jmp8(TEXT, TEXT + 2 + distance)
    assert decoded(text, TEXT) == ("jmp", hex(TEXT + 2 + distance), 2)
    assert insn.jmp8_target(TEXT, text) == TEXT + 2 + distance
    text = insn.jmp8(LOW, LOW + 2 + distance)
    assert decoded(text, LOW, NARROW) == ("jmp", hex(LOW + 2 + distance), 2)
    assert insn.jmp8_target(LOW, text, 32) == LOW + 2 + distance


def test_a_short_jump_wraps_around_the_address_space() -> None:
    assert insn.jmp8_target(2**32 - 2, bytes.fromhex("eb 10"), 32) == 0x10
    assert insn.jmp8_target(2**64 - 2, bytes.fromhex("eb 10")) == 0x10


@pytest.mark.parametrize("distance", [-129, 128])
def test_a_short_jump_out_of_reach_is_refused(distance: int) -> None:
    with pytest.raises(ValueError, match="cannot reach"):
        insn.jmp8(TEXT, TEXT + 2 + distance)


def test_only_calls_and_jumps_have_a_target() -> None:
    assert insn.rel32_target(TEXT, insn.NOP5) is None
    assert insn.rel32_target(TEXT, b"\xe8\0\0") is None
    assert insn.jmp8_target(TEXT, b"\xeb") is None


CALLS = {
    "call 0xffffffff81000000": "e8 fb ff ff ff",
    "call rax": "ff d0",
    "call r11": "41 ff d3",
    "call [rax]": "ff 10",
    "call [rax + 8]": "ff 50 08",
    "call [rsp + 8]": "ff 54 24 08",
    "call [rax*8 + table]": "ff 14 c5 00 00 00 81",
    "call [rip + x]": "ff 15 10 00 00 00",
    "call [rbx + x]": "ff 93 00 01 00 00",
}


CALLS32 = {
    "call 0xc1000000": "e8 fb ff ff ff",
    "call eax": "ff d0",
    "call [ebx + 8]": "ff 53 08",
    "call [esp + 8]": "ff 54 24 08",
    "call [eax*4 + table]": "ff 14 85 00 00 00 c1",
    "call [table]": "ff 15 00 00 00 c1",
}


@pytest.mark.parametrize("text", CALLS32.values(), ids=CALLS32.keys())
def test_an_address_after_a_call_is_a_return_address_in_32_bits(text: str) -> None:
    assert decoded(bytes.fromhex(text), LOW, NARROW)[0] == "call"
    assert insn.ends_in_call(bytes(15) + bytes.fromhex(text))


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS.keys())
def test_an_address_after_a_call_is_a_return_address(text: str) -> None:
    assert decoded(bytes.fromhex(text), TEXT)[0] == "call"
    assert insn.ends_in_call(bytes(15) + bytes.fromhex(text))


@pytest.mark.parametrize(
    "text", ["90", "ff e0", "ff 35 10 00 00 00", "48 89 c7 48 89 d6", "c3", ""]
)
def test_an_address_after_anything_else_is_not_a_return_address(text: str) -> None:
    assert not insn.ends_in_call(bytes(8) + bytes.fromhex(text))


@pytest.mark.parametrize(
    ("width", "mode", "pc", "sp"),
    [
        (WIDE, UC_MODE_64, UC_X86_REG_RIP, UC_X86_REG_RSP),
        (NARROW, UC_MODE_32, UC_X86_REG_EIP, UC_X86_REG_ESP),
    ],
    ids=["64", "32"],
)
def test_a_call_runs_to_its_target_and_a_nop_runs_past(
    width: Width, mode: int, pc: int, sp: int
) -> None:
    engine, word = Uc(UC_ARCH_X86, mode), width.bits // 8
    engine.mem_map(0x10000, 0x2000)
    engine.mem_write(0x10100, one(0x10100, 0x10800, bits=width.bits)[0])
    engine.reg_write(sp, 0x11800)
    engine.emu_start(0x10100, 0x10800)
    assert engine.reg_read(pc) == 0x10800
    assert int.from_bytes(engine.mem_read(0x11800 - word, word), "little") == 0x10105
    engine.mem_write(0x10200, width.nops[5])
    engine.emu_start(0x10200, 0, count=1)
    assert engine.reg_read(pc) == 0x10205


@WIDTHS
@pytest.mark.skipif(which("objdump") is None, reason="objdump is not installed")
def test_instructions_agree_with_objdump(width: Width, tmp_path: Path) -> None:
    code = one(0, 0x1000, bits=width.bits)[0] + one(5, 0x20, insn.JMP, width.bits)[0]
    path = tmp_path / "code"
    path.write_bytes(code + b"".join(width.nops.values()))
    output = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", width.objdump, "-M", "intel", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [line.split("\t")[2].split() for line in output.splitlines() if line.count("\t") >= 2]
    assert lines[0][:2] == ["call", "0x1000"]
    assert lines[1][:2] == ["jmp", "0x20"]
    assert len(lines) == 2 + len(width.nops)
    for words in lines[2:]:
        target, _, source = words[-1].partition(",")
        assert {"nop", "xchg"} & set(words) or (target == "esi" and "esi" in source)
