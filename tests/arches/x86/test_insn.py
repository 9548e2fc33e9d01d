"""x86 encoders and decoders, judged by Capstone, by the manual's bytes and by running."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.unicorn_const import UC_ARCH_X86, UC_MODE_64
from unicorn.x86_const import UC_X86_REG_RIP, UC_X86_REG_RSP

from dynftrace.arches.x86 import insn

TEXT = 0xFFFF_FFFF_8100_0000

addresses = st.integers(TEXT, TEXT + 0x3FFF_FFFF)


def one(ip: int, target: int, opcode: int = insn.CALL) -> tuple[bytes, bool]:
    text, reach = insn.rel32(opcode, np.array([ip], np.uint64), np.array([target], np.uint64))
    return text[0].tobytes(), bool(reach[0])


def decoded(text: bytes, ip: int) -> tuple[str, str, int]:
    """Mnemonic, operands and size of the first instruction, as Capstone reads it."""
    instruction = next(Cs(CS_ARCH_X86, CS_MODE_64).disasm(text, ip))
    return instruction.mnemonic, instruction.op_str, instruction.size


def test_the_manuals_own_call_forward_and_back() -> None:
    assert one(TEXT, TEXT + 5)[0] == bytes.fromhex("e8 00 00 00 00")
    assert one(TEXT, TEXT)[0] == bytes.fromhex("e8 fb ff ff ff")
    assert one(TEXT, TEXT + 0x105, insn.JMP)[0] == bytes.fromhex("e9 00 01 00 00")


@given(ip=addresses, target=addresses)
def test_capstone_reads_the_call_we_wrote(ip: int, target: int) -> None:
    text, reach = one(ip, target)
    assert reach
    assert decoded(text, ip) == ("call", hex(target), 5)
    assert insn.rel32_target(ip, text) == target


@given(ip=addresses, target=addresses)
def test_capstone_reads_the_jump_we_wrote(ip: int, target: int) -> None:
    text, reach = one(ip, target, insn.JMP)
    assert reach
    assert decoded(text, ip) == ("jmp", hex(target), 5)


@pytest.mark.parametrize(
    ("distance", "reach"),
    [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False), (2**40, False)],
)
def test_the_range_is_two_gigabytes_each_way(distance: int, reach: bool) -> None:
    ip = 0x7F00_0000_0000
    text, reached = one(ip, ip + 5 + distance)
    assert reached is reach
    if not reach:
        assert text == insn.INT3 * 5


def test_sites_are_encoded_one_by_one_in_one_go() -> None:
    ips = np.array([TEXT, TEXT + 7, TEXT - 2**33], np.uint64)
    targets = np.array([TEXT + 64, TEXT, TEXT], np.uint64)
    text, reach = insn.call(ips, targets)
    assert reach.tolist() == [True, True, False]
    for row in range(2):
        assert text[row].tobytes() == one(int(ips[row]), int(targets[row]))[0]
    text, reach = insn.jmp(ips[:0], targets[:0])
    assert text.shape == (0, 5)


@pytest.mark.parametrize("size", range(1, 10))
def test_each_nop_is_one_instruction_of_its_size(size: int) -> None:
    nop = insn.NOPS[size]
    mnemonic, _, length = decoded(nop, TEXT)
    assert (mnemonic.split()[-1], length) in {("nop", size), ("xchg", size)}
    assert insn.is_nop(nop) == size


def test_the_disabled_site_is_the_kernels_nop() -> None:
    assert bytes.fromhex("0f 1f 44 00 00") == insn.NOP5
    assert insn.is_nop(b"\xe8\0\0\0\0") == 0


@pytest.mark.parametrize("distance", [-128, -2, 0, 127])
def test_short_jumps(distance: int) -> None:
    text = insn.jmp8(TEXT, TEXT + 2 + distance)
    assert decoded(text, TEXT) == ("jmp", hex(TEXT + 2 + distance), 2)
    assert insn.jmp8_target(TEXT, text) == TEXT + 2 + distance


@pytest.mark.parametrize("distance", [-129, 128])
def test_a_short_jump_too_far_is_refused(distance: int) -> None:
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


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS.keys())
def test_code_behind_a_call_is_a_return_address(text: str) -> None:
    assert decoded(bytes.fromhex(text), TEXT)[0] == "call"
    assert insn.ends_in_call(bytes(15) + bytes.fromhex(text))


@pytest.mark.parametrize(
    "text", ["90", "ff e0", "ff 35 10 00 00 00", "48 89 c7 48 89 d6", "c3", ""]
)
def test_code_behind_anything_else_is_none(text: str) -> None:
    assert not insn.ends_in_call(bytes(8) + bytes.fromhex(text))


def test_a_call_runs_to_its_target_and_a_nop_runs_past() -> None:
    engine = Uc(UC_ARCH_X86, UC_MODE_64)
    engine.mem_map(0x10000, 0x2000)
    engine.mem_write(0x10100, one(0x10100, 0x10800)[0])
    engine.reg_write(UC_X86_REG_RSP, 0x11800)
    engine.emu_start(0x10100, 0x10800)
    assert engine.reg_read(UC_X86_REG_RIP) == 0x10800
    assert int.from_bytes(engine.mem_read(0x117F8, 8), "little") == 0x10105
    engine.mem_write(0x10200, insn.NOP5)
    engine.emu_start(0x10200, 0, count=1)
    assert engine.reg_read(UC_X86_REG_RIP) == 0x10205


@pytest.mark.skipif(which("objdump") is None, reason="objdump is not installed")
def test_objdump_reads_them_alike(tmp_path: Path) -> None:
    code = one(0, 0x1000)[0] + one(5, 0x20, insn.JMP)[0] + b"".join(insn.NOPS.values())
    path = tmp_path / "code"
    path.write_bytes(code)
    output = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [line.split("\t")[2].split() for line in output.splitlines() if line.count("\t") >= 2]
    assert lines[0][:2] == ["call", "0x1000"]
    assert lines[1][:2] == ["jmp", "0x20"]
    assert len(lines) == 2 + len(insn.NOPS)
    assert all({"nop", "xchg"} & set(line) for line in lines[2:])
