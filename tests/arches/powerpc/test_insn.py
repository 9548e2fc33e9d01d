"""PowerPC encoders and decoders, checked with the manual, Capstone, objdump and an emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import CS_ARCH_PPC, CS_MODE_64, CS_MODE_BIG_ENDIAN, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.ppc_const import (
    UC_PPC_REG_1,
    UC_PPC_REG_2,
    UC_PPC_REG_3,
    UC_PPC_REG_12,
    UC_PPC_REG_CTR,
    UC_PPC_REG_LR,
    UC_PPC_REG_PC,
)
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_MODE_BIG_ENDIAN,
    UC_MODE_PPC64,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches.powerpc import insn

TEXT = 0xC000_0000_0000_0000
REACH = 32 << 20
OBJDUMP = "powerpc64-linux-gnu-objdump"

registers = st.integers(0, 31)
displacements = st.integers(-0x8000, 0x7FFF)
words = st.integers(0, 2**32 - 1)


def one(ip: int, target: int, link: bool = True) -> tuple[bytes, bool]:
    text, reach = insn.i_form(np.array([ip], np.uint64), np.array([target], np.uint64), link)
    return text[0].tobytes(), bool(reach[0])


def decoded(word: int, ip: int = TEXT) -> str:
    """Return the instruction as Capstone decodes it."""
    decoder = Cs(CS_ARCH_PPC, CS_MODE_64 | CS_MODE_BIG_ENDIAN)
    instruction = next(decoder.disasm(insn.pack(word), ip))
    return f"{instruction.mnemonic} {instruction.op_str}".strip()


def engine() -> Uc:
    uc = Uc(UC_ARCH_PPC, UC_MODE_PPC64 | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    uc.mem_map(TEXT, 0x4000)
    return uc


# Fixed words


@pytest.mark.parametrize(
    ("word", "fields", "text"),
    [
        (insn.NOP, 24 << 26, "nop"),
        (insn.BCTR, 19 << 26 | 20 << 21 | 528 << 1, "bctr"),
        (insn.LD_R2, 58 << 26 | 2 << 21 | 1 << 16 | 40, "ld r2, 0x28(r1)"),
        (insn.mtctr(12), 31 << 26 | 12 << 21 | 9 << 16 | 467 << 1, "mtctr r12"),
        (insn.std(2, 40, 1), 62 << 26 | 2 << 21 | 1 << 16 | 40, "std r2, 0x28(r1)"),
    ],
)
def test_fixed_words_are_the_manuals_fields(word: int, fields: int, text: str) -> None:
    assert word == fields
    assert decoded(word) == text


# Branches


def test_branches_forward_and_back_have_the_manuals_fields() -> None:
    assert one(TEXT, TEXT)[0] == bytes.fromhex("48 00 00 01")
    assert one(TEXT, TEXT + 4)[0] == bytes.fromhex("48 00 00 05")
    assert one(TEXT + 4, TEXT)[0] == bytes.fromhex("4b ff ff fd")
    assert one(TEXT, TEXT + 0x100, link=False)[0] == bytes.fromhex("48 00 01 00")


@given(ip=st.integers(0, REACH // 4), target=st.integers(0, REACH // 4 - 1), link=st.booleans())
def test_branches_agree_with_capstone(ip: int, target: int, link: bool) -> None:
    ip, target = TEXT + 4 * ip, TEXT + 4 * target
    text, reach = one(ip, target, link)
    assert reach
    word = insn.word_at(text)
    assert decoded(word, ip) == f"{'bl' if link else 'b'} {target:#x}"
    assert insn.branch_target(ip, word) == target
    assert insn.is_bl(word) is insn.is_call(word) is link


@pytest.mark.parametrize(
    ("distance", "reach"),
    [
        (REACH - 4, True),
        (REACH, False),
        (-REACH, True),
        (-REACH - 4, False),
        (2, False),
        (1 << 60, False),
    ],
)
def test_a_branch_reaches_aligned_targets_within_32_megabytes(distance: int, reach: bool) -> None:
    ip = 0xC000_0000_1000_0000
    text, reached = one(ip, ip + distance)
    assert reached is reach
    if not reach:
        assert text == bytes(4)


def test_an_unaligned_address_is_refused() -> None:
    assert one(TEXT + 2, TEXT + 6) == (bytes(4), False)


def test_many_sites_are_encoded_as_if_one_by_one() -> None:
    ips = np.array([TEXT + 64, TEXT, TEXT + 2 * REACH], np.uint64)
    targets = np.array([TEXT, TEXT + 64, TEXT], np.uint64)
    text, reach = insn.bl(ips, targets)
    assert reach.tolist() == [True, True, False]
    for row in range(3):
        assert text[row].tobytes() == one(int(ips[row]), int(targets[row]))[0]
    assert insn.bl(ips[:0], targets[:0])[0].shape == (0, 4)


def test_an_absolute_branch_goes_to_its_field() -> None:
    assert decoded(0x4800_1003) == "bla 0x1000"
    assert insn.branch_target(TEXT, 0x4800_1003) == 0x1000
    assert insn.branch_target(TEXT, 0x4BFF_F002) == 2**64 - 0x1000
    assert not insn.is_bl(0x4800_1003)
    assert insn.branch_target(TEXT, insn.NOP) is None


CALLS = {
    "bl 0xc000000000001000": 0x4800_1001,
    "bla 0x1000": 0x4800_1003,
    "bctrl": 0x4E80_0421,
    "blrl": 0x4E80_0021,
    "bdnzl 0xc000000000000004": 0x4200_0005,
    "beqlrl": 0x4D82_0021,
}


@pytest.mark.parametrize(("text", "word"), CALLS.items(), ids=CALLS)
def test_an_instruction_that_sets_the_link_register_is_a_call(text: str, word: int) -> None:
    assert decoded(word) == text
    assert insn.is_call(word)
    assert not insn.is_call(word & ~1)


def test_a_call_of_the_next_instruction_is_a_call() -> None:
    assert insn.is_call(0x429F_0005)  # bcl 20,31,$+4


@pytest.mark.parametrize("word", [insn.NOP, 0x4C00_012C, 0x7C63_1A15, 0])  # isync, add.
def test_other_words_are_not_calls(word: int) -> None:
    assert not insn.is_call(word)
    assert not insn.is_call(word | 1)


# Registers and displacements


@given(rt=registers, ra=st.integers(1, 31), si=displacements)
def test_addi_and_addis_agree_with_capstone(rt: int, ra: int, si: int) -> None:
    for word, name, opcode in (
        (insn.addi(rt, ra, si), "addi", 14),
        (insn.addis(rt, ra, si), "addis", 15),
    ):
        mnemonic, *operands = decoded(word).replace(",", "").split()
        assert (mnemonic, operands[:2]) == (name, [f"r{rt}", f"r{ra}"])
        assert int(operands[2], 0) == si
        assert insn.d_fields(word) == (opcode, rt, ra, si)


@given(rt=registers, ra=st.integers(1, 31), d=st.integers(-0x2000, 0x1FFF).map(lambda n: 4 * n))
def test_ld_and_std_agree_with_capstone(rt: int, ra: int, d: int) -> None:
    for word, name, opcode in ((insn.ld(rt, d, ra), "ld", 58), (insn.std(rt, d, ra), "std", 62)):
        mnemonic, register, place = decoded(word).replace(",", "").split()
        assert (mnemonic, register) == (name, f"r{rt}")
        assert (int(place[: place.index("(")], 0), place[place.index("(") :]) == (d, f"(r{ra})")
        assert insn.ds_fields(word) == (opcode, rt, ra, d, 0)


@given(word=words)
def test_encoding_reverses_decoding(word: int) -> None:
    assert insn.d_form(*insn.d_fields(word)) == word
    assert insn.ds_form(*insn.ds_fields(word)) == word
    xfx = insn.xfx_fields(word)
    assert xfx is None or insn.xfx_form(*xfx) == word


@given(rs=registers, spr=st.integers(0, 1023))
def test_special_registers_are_encoded_and_decoded(rs: int, spr: int) -> None:
    assert insn.xfx_fields(insn.xfx_form(insn.MTSPR, spr, rs)) == (insn.MTSPR, spr, rs)
    assert insn.xfx_fields(insn.NOP) is None


@pytest.mark.parametrize(
    "encode",
    [
        lambda: insn.addi(3, 3, 0x8000),
        lambda: insn.addis(3, 3, -0x8001),
        lambda: insn.addi(32, 3, 0),
        lambda: insn.addi(3, -1, 0),
        lambda: insn.ld(2, 42, 1),
        lambda: insn.std(2, 0x8000, 1),
        lambda: insn.mtctr(32),
        lambda: insn.xfx_form(insn.MTSPR, 1024, 3),
        lambda: insn.word_at(bytes(7), 4),
    ],
)
def test_impossible_operands_are_refused(encode) -> None:
    with pytest.raises(ValueError):
        encode()


@given(value=words)
def test_addis_and_addi_add_up_to_the_displacement(value: int) -> None:
    high, low = insn.halves(value)
    assert ((high << 16) + low) % 2**32 == value
    insn.addis(12, 2, high)
    insn.addi(12, 12, low)


# Running


def test_a_call_runs_to_its_target_and_a_nop_runs_past() -> None:
    uc = engine()
    uc.mem_write(TEXT + 0x100, one(TEXT + 0x100, TEXT + 0x800)[0])
    uc.emu_start(TEXT + 0x100, TEXT + 0x800)
    assert uc.reg_read(UC_PPC_REG_PC) == TEXT + 0x800
    assert uc.reg_read(UC_PPC_REG_LR) == TEXT + 0x104
    uc.mem_write(TEXT + 0x200, insn.pack(insn.NOP))
    uc.emu_start(TEXT + 0x200, 0, count=1)
    assert uc.reg_read(UC_PPC_REG_PC) == TEXT + 0x204


@pytest.mark.parametrize("value", [0x1234_5678, 0x1234_8678, -0x1234_8678, -1, 0x7FFF_7FFF])
def test_instructions_agree_with_the_emulator(value: int) -> None:
    uc = engine()
    high, low = insn.halves(value)
    code = insn.pack(
        insn.addis(12, 2, high),
        insn.addi(12, 12, low),
        insn.std(12, 40, 1),
        insn.ld(3, 40, 1),
        insn.mtctr(3),
    )
    uc.mem_write(TEXT, code)
    uc.reg_write(UC_PPC_REG_2, TEXT)
    uc.reg_write(UC_PPC_REG_1, TEXT + 0x2000)
    uc.emu_start(TEXT, TEXT + len(code))
    for register in (UC_PPC_REG_12, UC_PPC_REG_3, UC_PPC_REG_CTR):
        assert uc.reg_read(register) == (TEXT + value) % 2**64


@pytest.mark.skipif(which(OBJDUMP) is None, reason=f"{OBJDUMP} is not installed")
def test_instructions_agree_with_objdump(tmp_path: Path) -> None:
    path = tmp_path / "code"
    path.write_bytes(
        one(0, 0x1000)[0]
        + one(4, 0, link=False)[0]
        + insn.pack(insn.NOP, insn.LD_R2, insn.std(2, 40, 1), insn.addis(12, 2, -1))
        + insn.pack(insn.addi(12, 12, 16), insn.mtctr(11), insn.BCTR)
    )
    output = subprocess.run(
        [OBJDUMP, "-D", "-b", "binary", "-m", "powerpc:common64", "-EB", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [line.split("\t", 2)[2] for line in output.splitlines() if line.count("\t") >= 2]
    assert [" ".join(line.split()) for line in lines] == [
        "bl 0x1000",
        "b 0x0",
        "nop",
        "ld r2,40(r1)",
        "std r2,40(r1)",
        "addis r12,r2,-1",
        "addi r12,r12,16",
        "mtctr r11",
        "bctr",
    ]
