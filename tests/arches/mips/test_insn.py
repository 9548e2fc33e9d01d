"""MIPS encoders and decoders, checked with the manual, Capstone, objdump and an emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import (
    CS_ARCH_MIPS,
    CS_GRP_BRANCH_RELATIVE,
    CS_GRP_JUMP,
    CS_MODE_BIG_ENDIAN,
    CS_MODE_MIPS64,
    Cs,
    CsInsn,
)
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.mips_const import (
    UC_MIPS_REG_PC,
    UC_MIPS_REG_RA,
    UC_MIPS_REG_V0,
    UC_MIPS_REG_V1,
)
from unicorn.unicorn_const import (
    UC_ARCH_MIPS,
    UC_MODE_BIG_ENDIAN,
    UC_MODE_MIPS32,
    UC_MODE_MIPS64,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches.mips import insn

KSEG0, KSEG2 = 0x8000_0000, 0xC000_0000
TEXT = KSEG0 + 0x20_0000
REGION = 256 << 20
OBJDUMP = "mips64-linux-gnuabi64-objdump"

registers = st.integers(0, 31)
immediates = st.integers(-0x8000, 0x7FFF)
words = st.integers(0, 2**32 - 1)
aligned = st.integers(0, 2**30 - 1).map(lambda n: 4 * n)


def one(ip: int, target: int) -> tuple[int, bool]:
    word, reach = insn.jal(np.array([ip], np.uint64), np.array([target], np.uint64))
    return int(word[0]), bool(reach[0])


def decode(word: int, ip: int = TEXT) -> CsInsn | None:
    decoder = Cs(CS_ARCH_MIPS, CS_MODE_MIPS64 | CS_MODE_BIG_ENDIAN)
    decoder.detail = True
    return next(decoder.disasm(insn.pack("big", word), ip), None)


def decoded(word: int, ip: int = TEXT) -> str:
    """Return the instruction as Capstone decodes it."""
    instruction = decode(word, ip)
    assert instruction is not None
    return f"{instruction.mnemonic} {instruction.op_str}".strip()


# Fixed words


@pytest.mark.parametrize(
    ("word", "value", "text"),
    [
        (insn.NOP, 0x0000_0000, "nop"),
        (insn.ADDIU_SP, 0x27BD_FFF8, "addiu $sp, $sp, -8"),
        (insn.MOVES_AT_RA[0], 0x03E0_0825, "move $at, $ra"),
        (insn.MOVES_AT_RA[1], 0x03E0_0821, "move $at, $ra"),
        (insn.MOVES_AT_RA[2], 0x03E0_082D, "move $at, $ra"),
        (insn.jalr(insn.V1), 0x0060_F809, "jalr $v1"),
        (insn.jr(insn.RA), 0x03E0_0008, "jr $ra"),
        (insn.b(20), 0x1000_0004, "b 0x80200014"),
        (insn.lui(insn.V1, 0x8020), 0x3C03_8020, "lui $v1, 0x8020"),
        (insn.addiu(insn.V1, insn.V1, 0x100), 0x2463_0100, "addiu $v1, $v1, 0x100"),
        (insn.daddiu(insn.V1, insn.V1, 0x100), 0x6463_0100, "daddiu $v1, $v1, 0x100"),
    ],
)
def test_fixed_words_agree_with_the_compiler_and_capstone(word: int, value: int, text: str) -> None:
    assert word == value
    assert decoded(word) == text


# J-type


@given(ip=aligned, target=aligned)
def test_a_jal_reaches_the_region_of_its_delay_slot(ip: int, target: int) -> None:
    word, reach = one(ip, target)
    assert reach == ((ip + 4) // REGION == target // REGION)
    if reach:
        assert insn.jump_target(ip, word) == target
        instruction = decode(word, ip)
        assert instruction is not None and instruction.mnemonic == "jal"
        assert instruction.operands[0].imm % 2**64 == target


@pytest.mark.parametrize(
    ("ip", "target", "reach"),
    [
        (KSEG0, KSEG0 + REGION - 4, True),
        (KSEG0 + REGION - 8, KSEG0, True),
        (KSEG0 + REGION - 4, KSEG0, False),  # the slot is in the next region
        (KSEG0 + REGION - 4, KSEG0 + REGION, True),
        (KSEG2, KSEG0, False),
        (KSEG0, KSEG0 - 4, False),
        (TEXT, TEXT + 2, False),
        (TEXT + 2, TEXT, False),
    ],
)
@pytest.mark.parametrize("high", [0, 0xFFFF_FFFF_0000_0000])
def test_a_jal_reaches_exactly_its_region(ip: int, target: int, reach: bool, high: int) -> None:
    assert one(high + ip, high + target)[1] == reach


def test_many_jumps_are_encoded_as_if_one_by_one() -> None:
    ips = np.arange(TEXT, TEXT + 400, 4, dtype=np.uint64)
    targets = np.arange(KSEG2 - 200, KSEG2 + 200, 4, dtype=np.uint64)
    some, reach = insn.jal(ips, targets)
    for row, (ip, target) in enumerate(zip(ips.tolist(), targets.tolist(), strict=True)):
        assert one(ip, target) == (int(some[row]), bool(reach[row]))


def test_only_jumps_have_a_target() -> None:
    for word in (insn.NOP, insn.b(8), insn.jr(31), 0x7480_0000):  # the last is jalx
        assert insn.jump_target(TEXT, word) is None


# I-type


@given(distance=st.integers(-(2**15), 2**15 - 1).map(lambda n: 4 * n + 4))
def test_the_target_of_a_branch_agrees_with_capstone(distance: int) -> None:
    word = insn.b(distance)
    assert insn.branch_target(TEXT, word) == TEXT + distance
    assert decoded(word) == f"b {TEXT + distance:#x}"


def test_only_unconditional_branches_have_a_target() -> None:
    assert insn.branch_target(TEXT, 0x0411_FFFF) == TEXT  # bal
    for word in (insn.NOP, 0x1040_0001, 0x1400_0001, 0x0410_0001, 0x0451_0001):
        assert insn.branch_target(TEXT, word) is None


@given(rt=registers, rs=st.integers(1, 31), immediate=immediates)
def test_encoded_fields_agree_with_capstone(rt: int, rs: int, immediate: int) -> None:
    for word, name, opcode in (
        (insn.addiu(rt, rs, immediate), "addiu", 9),
        (insn.daddiu(rt, rs, immediate), "daddiu", 25),
    ):
        instruction = decode(word)
        assert instruction is not None and instruction.mnemonic == name
        assert instruction.operands[2].imm == immediate
        assert insn.i_fields(word) == (opcode, rs, rt, immediate)


@given(word=words)
def test_encoding_reverses_decoding(word: int) -> None:
    assert insn.i_type(*insn.i_fields(word)) == word
    fields = insn.r_fields(word)
    assert fields is None or insn.r_type(*fields) == word


@given(value=words)
def test_hi_and_lo_add_up_to_the_address(value: int) -> None:
    high, low = insn.halves(value)
    assert ((high << 16) + low) % 2**32 == value
    insn.lui(3, high)
    insn.addiu(3, 3, low)


@pytest.mark.parametrize(
    "encode",
    [
        lambda: insn.addiu(3, 3, 0x1_0000),
        lambda: insn.lui(3, -0x8001),
        lambda: insn.addiu(32, 3, 0),
        lambda: insn.jr(-1),
        lambda: insn.b(2**17 + 4),
        lambda: insn.b(-(2**17)),
        lambda: insn.b(6),
        lambda: insn.word_at(bytes(7), "big", 4),
    ],
)
def test_impossible_operands_are_refused(encode) -> None:
    with pytest.raises(ValueError):
        encode()


# Bytes


@given(some=st.lists(words, min_size=4, max_size=4))
@pytest.mark.parametrize("order", ["big", "little"])
def test_words_and_bytes_convert_both_ways(order: str, some: list[int]) -> None:
    text = insn.pack(order, *some)
    assert [insn.word_at(text, order, at) for at in range(0, 16, 4)] == some
    table = np.array([some, some[::-1]], np.uint32)
    raw = insn.bytes_of(table, order)
    assert raw[0].tobytes() == text
    assert (insn.words_of(raw, order) == table).all()
    assert insn.words_of(raw[:, :8], order).shape == (2, 2)


def test_an_empty_batch_keeps_its_width() -> None:
    none = np.empty((0, 2), np.uint32)
    assert insn.bytes_of(none, "big").shape == (0, 8)
    assert insn.words_of(np.empty((0, 8), np.uint8), "little").shape == (0, 2)


# Kinds of instruction


OTHERS = ("bz.", "bnz.", "bc0", "bc3", "bposge", "bbit")
"""Branches of MSA, MIPS I, DSP and Octeon, which Capstone also decodes."""


@given(word=words)
def test_jumps_and_branches_agree_with_capstone(word: int) -> None:
    instruction = decode(word)
    if instruction is None or instruction.mnemonic.startswith(OTHERS):
        return
    known = any(map(instruction.group, (CS_GRP_JUMP, CS_GRP_BRANCH_RELATIVE)))
    known |= instruction.mnemonic in ("jal", "jalx", "jalr", "jr")
    assert insn.has_delay_slot(word) == known, instruction


@pytest.mark.parametrize(
    ("word", "slot", "call"),
    [
        (0x0C08_0040, True, True),  # jal
        (0x0060_F809, True, True),  # jalr v1
        (0x0411_0001, True, True),  # bal
        (0x0450_0001, True, True),  # bltzal v0
        (0x0800_0000, True, False),  # j
        (0x03E0_0008, True, False),  # jr ra
        (0x1000_0004, True, False),  # b
        (0x5040_0003, True, False),  # beql v0, zero
        (0x0440_0001, True, False),  # bltz v0
        (0x4500_0001, True, False),  # bc1f
        (0x0000_0000, False, False),
        (0x27BD_FFF8, False, False),
        (0x0000_000C, False, False),  # syscall
        (0x044C_0001, False, False),  # teqi v0
    ],
)
def test_delay_slots_and_calls_are_recognised(word: int, slot: bool, call: bool) -> None:
    assert insn.has_delay_slot(word) == slot
    assert insn.is_call(word) == call


# Running


def engine(mode: int, base: int) -> Uc:
    uc = Uc(UC_ARCH_MIPS, mode | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    uc.mem_map(base, 0x4000)
    return uc


@pytest.mark.parametrize(
    ("mode", "base"), [(UC_MODE_MIPS32, TEXT), (UC_MODE_MIPS64, 0xFFFF_FFFF_0000_0000 + TEXT)]
)
def test_the_delay_slot_runs_before_a_call_returns(mode: int, base: int) -> None:
    uc = engine(mode, base)
    word, reach = one(base, base + 0x800)
    assert reach
    uc.mem_write(base, insn.pack("big", word, insn.addiu(2, 2, 1), insn.addiu(2, 2, 8)))
    uc.emu_start(base, base + 0x800)
    assert uc.reg_read(UC_MIPS_REG_PC) == base + 0x800
    assert uc.reg_read(UC_MIPS_REG_RA) == base + insn.CALL
    assert uc.reg_read(UC_MIPS_REG_V0) == 1


@pytest.mark.parametrize("value", [0x8020_0100, 0x8020_8100, 0x7FFF_8000, 0x1234_5678])
def test_hi_and_lo_agree_with_the_emulator(value: int) -> None:
    high, low = insn.halves(value)
    for mode, base, add, loaded in (
        (UC_MODE_MIPS32, TEXT, insn.addiu, value),
        (
            *(UC_MODE_MIPS64, 0xFFFF_FFFF_0000_0000 + TEXT, insn.daddiu),
            (((high ^ 0x8000) - 0x8000 << 16) + low) % 2**64,
        ),
    ):
        uc = engine(mode, base)
        uc.mem_write(base, insn.pack("big", insn.lui(3, high), add(3, 3, low)))
        uc.emu_start(base, base + 8)
        assert uc.reg_read(UC_MIPS_REG_V1) == loaded


@pytest.mark.skipif(which(OBJDUMP) is None, reason=f"{OBJDUMP} is not installed")
def test_instructions_agree_with_objdump(tmp_path: Path) -> None:
    path = tmp_path / "code"
    path.write_bytes(
        insn.pack(
            "big",
            *(one(0, 0x1000)[0], insn.ADDIU_SP, insn.b(20), insn.NOP),
            *(insn.lui(3, 0x8020), insn.addiu(3, 3, -1), insn.daddiu(3, 3, 16)),
            *(insn.MOVES_AT_RA[0], insn.jalr(3), insn.jr(31)),
        )
    )
    command = [OBJDUMP, "-D", "-b", "binary", "-m", "mips:isa64r2", "-EB", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split("\t", 2)[2] for line in output.splitlines() if line.count("\t") >= 2]
    assert [" ".join(line.split()) for line in lines] == [
        "jal 0x1000",
        "addiu sp,sp,-8",
        "b 0x1c",
        "nop",
        "lui v1,0x8020",
        "addiu v1,v1,-1",
        "daddiu v1,v1,16",
        "move at,ra",
        "jalr v1",
        "jr ra",
    ]
