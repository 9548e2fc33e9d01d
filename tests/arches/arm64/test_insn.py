"""Encoders and decoders of A64, compared with the manual, Capstone and GNU as."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import CS_ARCH_ARM64, CS_GRP_CALL, CS_MODE_LITTLE_ENDIAN, Cs
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.arm64 import insn

AT = 0xFFFF_8000_0800_0000
AS = "aarch64-linux-gnu-as"

registers = st.integers(0, 30)
words_of_code = st.integers(-(1 << 25), (1 << 25) - 1).map(lambda count: 4 * count)


def array(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def text(word: int, at: int = AT) -> str:
    """Return Capstone's text of a word."""
    decoder = Cs(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN)
    decoded = next(decoder.disasm(insn.pack(word), at))
    return f"{decoded.mnemonic} {decoded.op_str}".strip()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (insn.NOP, "nop"),
        (insn.SAVE_LR, "mov x9, x30"),
        (insn.mov(0, 30), "mov x0, x30"),
        (insn.b(-4), f"b #{AT - 4:#x}"),
        (insn.br(16), "br x16"),
        (insn.adrp(16, 1), f"adrp x16, #{AT + 0x1000:#x}"),
        (insn.adrp(16, -3), f"adrp x16, #{AT - 0x3000:#x}"),
        (insn.add(16, 16, 0xABC), "add x16, x16, #0xabc"),
    ],
)
def test_encoded_instructions_are_the_manuals_words(word: int, said: str) -> None:
    assert text(word) == said


def test_words_are_little_endian() -> None:
    assert insn.pack(insn.NOP, insn.SAVE_LR).hex(" ", 4) == "1f2003d5 e9031eaa"
    assert insn.words(bytes.fromhex("1f2003d5 e9031eaa 00")) == [insn.NOP, insn.SAVE_LR]
    with pytest.raises(ValueError, match="no instruction"):
        insn.word_at(b"\0\0\0")


@given(distance=words_of_code)
def test_a_branch_goes_to_its_target(distance: int) -> None:
    call, reach = insn.bl(array(AT), array((AT + distance) % 2**64))
    word = insn.word_at(call.tobytes())
    assert reach.all()
    assert insn.is_bl(word) and insn.is_call(word)
    assert insn.branch_target(AT, word) == (AT + distance) % 2**64
    assert text(word) == f"bl #{AT + distance:#x}"
    assert insn.branch_target(AT, insn.b(distance)) == (AT + distance) % 2**64
    assert not insn.is_call(insn.b(distance))


@pytest.mark.parametrize("distance", [1 << 27, -(1 << 27) - 4, 2, 1 << 40])
def test_a_branch_out_of_reach_or_unaligned_is_refused(distance: int) -> None:
    call, reach = insn.bl(array(AT, AT), array(AT, (AT + distance) % 2**64))
    assert reach.tolist() == [True, False]
    assert not call[1].any()
    with pytest.raises(ValueError, match="cannot go"):
        insn.b(distance)


def test_a_branch_from_an_unaligned_address_is_refused() -> None:
    assert not insn.bl(array(AT + 2), array(AT + 2))[1].any()


@given(rd=registers, pages=st.integers(-(1 << 20), (1 << 20) - 1))
def test_adrp_is_encoded_and_decoded(rd: int, pages: int) -> None:
    word = insn.adrp(rd, pages)
    assert insn.adrp_fields(word) == (rd, pages)
    target = (AT & ~0xFFF) + (pages << 12)
    assert text(word).endswith(f"#{target % 2**64:#x}")


@given(rd=registers, rn=registers, imm=st.integers(0, 4095))
def test_add_is_encoded_and_decoded(rd: int, rn: int, imm: int) -> None:
    assert insn.add_fields(insn.add(rd, rn, imm)) == (rd, rn, imm)


@given(rd=registers, rm=registers)
def test_mov_and_br_are_encoded_and_decoded(rd: int, rm: int) -> None:
    assert insn.mov_fields(insn.mov(rd, rm)) == (rd, rm)
    assert insn.br_register(insn.br(rm)) == rm


def test_operands_that_do_not_fit_are_refused() -> None:
    for encode in (
        lambda: insn.adrp(16, 1 << 20),
        lambda: insn.adrp(16, -(1 << 20) - 1),
        lambda: insn.add(16, 16, 4096),
        lambda: insn.add(16, 16, -1),
        lambda: insn.mov(31, 0),
        lambda: insn.br(32),
    ):
        with pytest.raises(ValueError, match=r"go|fit|register"):
            encode()


@given(word=st.integers(0, 2**32 - 1))
def test_decoders_agree_with_capstone_on_any_word(word: int) -> None:
    decoder = Cs(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    decoded = next(decoder.disasm(insn.pack(word), AT), None)
    name = "" if decoded is None else decoded.mnemonic
    assert (insn.branch_target(AT, word) is not None) == (name in ("b", "bl"))
    assert insn.is_call(word) == (name in ("bl", "blr"))
    if insn.is_call(word):
        assert decoded.group(CS_GRP_CALL)
    assert (insn.adrp_fields(word) is not None) == (name == "adrp")
    assert (insn.br_register(word) is not None) == (name == "br")


@pytest.mark.skipif(which(AS) is None, reason=f"no {AS}")
def test_the_assembler_agrees(tmp_path: Path) -> None:
    source = "nop; mov x9, x30; mov x0, x30; br x16; add x16, x16, #291; adrp x3, .; bl .+8; b .-16"
    (tmp_path / "a.s").write_text(source.replace(";", "\n") + "\n")
    for command in (
        [AS, "-o", "a.o", "a.s"],
        ["aarch64-linux-gnu-ld", "-Ttext", "0x1000", "-e", "0", "-o", "a.elf", "a.o"],
        ["aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", "a.elf", "a.bin"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    call = insn.word_at(insn.bl(array(24), array(32))[0].tobytes())
    wanted = insn.pack(
        *(insn.NOP, insn.SAVE_LR, insn.mov(0, 30), insn.br(16), insn.add(16, 16, 291)),
        *(insn.adrp(3, 0), call, insn.b(-16)),
    )
    assert (tmp_path / "a.bin").read_bytes() == wanted
