"""o32 relocations, compared with their formulas as plain integers and with GNU ld."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.mips.mips32 import reloc
from dynftrace.core.errors import ModuleError, RelocationOverflow, UnknownRelocation

from ....support.relocating import batch, linked

PLACE = 0xC000_0000
REGION = 256 << 20
R_32, R_26, HI16, LO16, PC16 = 2, 4, 5, 6, 10

addresses = st.integers(0, 2**32 - 1)
words = st.integers(0, 2**32 - 1)


def relocated(order: str, before: list[int], *rows: tuple[int, int, int]) -> list[int]:
    """Return words at PLACE after relocations (type, row of the word, S)."""
    text = np.array(before, "<u4" if order == "little" else ">u4").view(np.uint8).copy()
    fields = ((kind, 4 * row, symbol, 0) for kind, row, symbol in rows)
    table = batch(PLACE, *fields, explicit=False)
    reloc.ABI[order].relocate("m", text, table)
    return text.view("<u4" if order == "little" else ">u4").tolist()


@given(s=addresses, a=words)
@pytest.mark.parametrize("order", ["big", "little"])
def test_32_is_s_plus_the_field(order: str, s: int, a: int) -> None:
    assert relocated(order, [1, a, 2], (R_32, 1, s)) == [1, (s + a) % 2**32, 2]


@given(s=st.integers(0, REGION // 4 - 1).map(lambda n: PLACE + 4 * n), opcode=st.integers(0, 63))
@pytest.mark.parametrize("order", ["big", "little"])
def test_26_counts_words_and_keeps_the_opcode(order: str, s: int, opcode: int) -> None:
    (word,) = relocated(order, [opcode << 26], (R_26, 0, s))
    assert word >> 26 == opcode
    assert PLACE // REGION * REGION | (word & 0x3FF_FFFF) << 2 == s


def test_the_field_of_26_is_a_signed_distance_in_words() -> None:
    assert relocated("big", [0x0C00_0010], (R_26, 0, PLACE + 0x100)) == [0x0C00_0050]
    assert relocated("big", [0x0FFF_FFFF], (R_26, 0, PLACE + 0x100)) == [0x0C00_003F]


@given(s=addresses, ahl=st.integers(-(2**31), 2**31 - 1))
@pytest.mark.parametrize("order", ["big", "little"])
def test_hi16_and_lo16_add_up_to_symbol_and_addend(order: str, s: int, ahl: int) -> None:
    high, low = (ahl + 0x8000) >> 16 & 0xFFFF, ahl & 0xFFFF
    before = [0x3C03_0000 | high, 0x2463_0000 | low]
    lui, addiu = relocated(order, before, (HI16, 0, s), (LO16, 1, s))
    assert lui >> 16 == 0x3C03 and addiu >> 16 == 0x2463
    signed = (addiu & 0xFFFF ^ 0x8000) - 0x8000
    assert ((lui << 16) + signed) % 2**32 == (s + ahl) % 2**32


def test_several_hi16_share_a_lo16_and_a_lo16_may_be_alone() -> None:
    s = 0x8021_7FF0
    before = [0x3C03_0000, 0x3C04_0001, 0x2463_0020, 0x2484_0020, 0x3C02_0000, 0x8C42_FFFC]
    rows = [(HI16, 0, s), (HI16, 1, s), (LO16, 2, s), (LO16, 3, s), (HI16, 4, s), (LO16, 5, s)]
    assert relocated("big", before, *rows) == [
        *(0x3C03_8022, 0x3C04_8023, 0x2463_8010, 0x2484_8010),  # 8021 and a carry
        *(0x3C02_8021, 0x8C42_7FEC),
    ]


def test_hi16_and_lo16_are_paired_in_table_order() -> None:
    s, t = 0x8020_9000, 0x8030_0000
    before = [0x3C03_0000, 0x3C04_0000, 0x2463_0000, 0x2484_0000]
    rows = [(HI16, 1, t), (LO16, 3, t), (HI16, 0, s), (LO16, 2, s)]
    assert relocated("big", before, *rows) == [0x3C03_8021, 0x3C04_8030, 0x2463_9000, 0x2484_0000]


@pytest.mark.parametrize(
    "rows",
    [
        [(R_32, 2, 5), (HI16, 1, 0x8020_0000)],
        [(LO16, 0, 0x8020_0000), (HI16, 1, 0x8020_0000)],
        [(HI16, 1, 0x8020_0000), (LO16, 0, 0x8020_0004)],
        [(HI16, 1, 0x8020_0000), (HI16, 2, 0x8020_0004), (LO16, 0, 0x8020_0004)],
    ],
)
def test_a_hi16_without_its_lo16_is_refused(rows: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ModuleError, match="R_MIPS_HI16 at c0000004 without its R_MIPS_LO16"):
        relocated("big", [0, 0, 0], *rows)


@given(distance=st.integers(-(2**15), 2**15 - 1))
def test_pc16_counts_from_the_delay_slot_by_its_addend(distance: int) -> None:
    (word,) = relocated("big", [0x1000_FFFF], (PC16, 0, PLACE + 4 + 4 * distance))
    assert word == 0x1000_0000 | distance % 2**16


def test_none_changes_nothing() -> None:
    assert relocated("big", [5, 6], (0, 1, 2**32 - 1)) == [5, 6]


@pytest.mark.parametrize(
    ("kind", "symbol", "name"),
    [
        (R_26, 0x8020_0100, "R_MIPS_26"),
        (R_26, 0xD000_0000, "R_MIPS_26"),
        (R_26, PLACE + 2, "R_MIPS_26"),
        (PC16, PLACE + 4 + 2**17, "R_MIPS_PC16"),
        (PC16, PLACE - 2**17, "R_MIPS_PC16"),
        (PC16, PLACE + 2, "R_MIPS_PC16"),
    ],
)
def test_an_overflow_names_its_type(kind: int, symbol: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(RelocationOverflow) as caught:
        table = batch(PLACE, (R_32, 8, 7, 0), (kind, 4, symbol, 0), explicit=False)
        reloc.ABI["big"].relocate("usb", text, table)
    value = symbol if kind == R_26 else (symbol - PLACE - 4) % 2**32
    assert str(caught.value) == (
        f"module usb: relocation overflow, v:{value:x}, location:c0000004 ({name})"
    )
    assert not text.any(), "a failed relocation must write nothing"


@pytest.mark.parametrize(
    ("kind", "name"),
    [(7, "R_MIPS_GPREL16"), (28, "R_MIPS_HIGHER"), (18, "R_MIPS_64"), (200, "R_MIPS_200")],
)
def test_an_error_names_an_unknown_type(kind: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(UnknownRelocation, match=name):
        table = batch(PLACE, (R_32, 8, 7, 0), (kind, 0, 0, 0), explicit=False)
        reloc.ABI["big"].relocate("usb", text, table)
    assert not text.any()


@pytest.mark.parametrize("offset", [13, 16, 2**32 - 1])
@pytest.mark.parametrize("kind", [R_32, HI16])
def test_a_field_outside_its_section_is_refused(kind: int, offset: int) -> None:
    with pytest.raises(ModuleError, match="outside its section"):
        table = batch(PLACE, (kind, offset, 7, 0), explicit=False)
        reloc.ABI["big"].relocate("m", np.zeros(16, np.uint8), table)


# GNU ld

SOURCE = """
        .set noreorder
        .text
        jal far
        nop
        jal far + 8
        nop
        j near - 4
        nop
        b far
        nop
near:   lui $2, %hi(object)
        lui $3, %hi(object + 0x10000)
        addiu $2, $2, %lo(object)
        lw $3, %lo(object + 0x10000)($3)
        lui $4, %hi(object + 0x14)
        sw $3, %lo(object + 0x14)($4)
        lw $5, %lo(object + 0x18)($4)
        la $6, local
        lui $7, %hi(local + 0x7ff8)
        lui $8, %hi(local + 0x7ff8)
        addiu $7, $7, %lo(local + 0x7ff8)
        .word object
        .word local + 4
        .word near - 12
        .section .far,"ax"
        .globl far
        .zero 0x40
far:    jr $31
        nop
        .data
        .globl object
        .zero 0x1ff78
local:  .word 2
object: .word 1
"""


@pytest.mark.parametrize(
    ("order", "tools"), [("big", "mips-linux-gnu-"), ("little", "mipsel-linux-gnu-")]
)
def test_relocations_agree_with_gnu_ld(tmp_path: Path, order: str, tools: str) -> None:
    if which(f"{tools}ld") is None:
        pytest.skip(f"{tools}ld is not installed")
    places = {".text": PLACE, ".far": PLACE + 0x1_0000, ".data": PLACE + 0x20_0000}
    before, after, rows = linked(tmp_path, tools, SOURCE, places, flags="-mips32r2 -mabi=32")
    assert {row[0] for row in rows} == {R_32, R_26, HI16, LO16, PC16}
    text = np.frombuffer(before, np.uint8).copy()
    reloc.ABI[order].relocate("m", text, batch(PLACE, *rows, explicit=False))
    assert text.tobytes() == after
