"""n64 relocations, compared with their formulas as plain integers and with GNU ld."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.mips.mips64 import reloc
from dynftrace.arches.mips.mips64.port import port
from dynftrace.core.errors import RelocationOverflow, UnknownRelocation

from ....support.relocating import batch, linked

HIGH = 0xFFFF_FFFF_0000_0000
PLACE = HIGH + 0xC000_0000
TOOLS = "mips64-linux-gnuabi64-"
R_32, R_26, HI16, LO16, PC16, R_64, HIGHER, HIGHEST = 2, 4, 5, 6, 10, 18, 28, 29


def field_of(kind: int, symbol: int, addend: int, width: int = 4, was: int = 0) -> int:
    """Return the field at offset 8, which held `was`, after one relocation."""
    text = np.zeros(24, np.uint8)
    text[8 : 8 + width] = list(was.to_bytes(width, "big"))
    reloc.ABI.relocate("m", text, batch(PLACE, (kind, 8, symbol, addend)))
    assert not text[:8].any() and not text[8 + width :].any()
    return int.from_bytes(text[8 : 8 + width].tobytes(), "big")


def signed(value: int, bits: int) -> int:
    return (value % 2**bits ^ 1 << (bits - 1)) - (1 << (bits - 1))


anywhere = st.integers(0, 2**64 - 1)
addends = st.integers(-0x8000, 0x7FFF)
sym32 = st.integers(-(2**31), 2**31 - 0x2_0000)


@given(s=anywhere, a=addends)
def test_64_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(R_64, s, a, 8, was=5) == (s + a) % 2**64


@given(s=sym32, a=addends)
def test_32_is_s_plus_a_with_or_without_sign_extension(s: int, a: int) -> None:
    s = max(s, -(2**31) + 0x8000)
    assert field_of(R_32, s, a) == (s + a) % 2**32
    assert field_of(R_32, 0xFFFF_0000, 0x7FFF) == 0xFFFF_7FFF


@given(s=sym32, a=addends)
def test_hi16_and_lo16_make_a_sign_extended_address(s: int, a: int) -> None:
    s = max(s, -(2**31))
    lui = field_of(HI16, s, a, was=0x3C03_1234)
    add = field_of(LO16, s, a, was=0x6463_1234)
    assert lui >> 16 == 0x3C03 and add >> 16 == 0x6463
    assert signed(lui, 16) * 2**16 + signed(add, 16) == s + a


@given(s=anywhere, a=addends)
def test_four_parts_make_any_address(s: int, a: int) -> None:
    kinds = (HIGHEST, HIGHER, HI16, LO16)
    text = np.zeros(16, np.uint8)
    rows = [(kind, 4 * row, s, a) for row, kind in enumerate(kinds)]
    reloc.ABI.relocate("m", text, batch(PLACE, *rows))
    value = 0
    for word in text.view(">u4").tolist():
        value = (value << 16) + signed(word, 16)
    assert value % 2**64 == (s + a) % 2**64


def test_jumps_and_branches_are_relocated() -> None:
    assert field_of(R_26, PLACE + 0x100, 8, was=0x0C00_FFFF) == 0x0C00_0042
    assert field_of(PC16, PLACE + 0x100, -4, was=0x1000_1234) == 0x1000_003D


def test_none_changes_nothing() -> None:
    assert field_of(0, 2**64 - 1, 5, 0) == 0


@pytest.mark.parametrize(
    ("kind", "symbol", "name"),
    [
        (R_26, HIGH + 0x8020_0100, "R_MIPS_26"),
        (R_26, 0xC000_0000, "R_MIPS_26"),
        (R_26, PLACE + 2, "R_MIPS_26"),
        (R_32, 2**32, "R_MIPS_32"),
        (R_32, HIGH, "R_MIPS_32"),
        (HI16, 0x8020_0000, "R_MIPS_HI16"),
        (HI16, 0x7FFF_8000, "R_MIPS_HI16"),
        (HI16, HIGH + 0x7FFF_0000, "R_MIPS_HI16"),
        (PC16, PLACE + 4 + 2**17, "R_MIPS_PC16"),
    ],
)
def test_an_overflow_names_its_type(kind: int, symbol: int, name: str) -> None:
    text = np.zeros(24, np.uint8)
    rows = batch(PLACE, (R_64, 8, 7, 0), (kind, 4, symbol, 0))
    with pytest.raises(RelocationOverflow, match="relocation overflow") as caught:
        reloc.ABI.relocate("usb", text, rows)
    assert caught.value.kind == name
    assert caught.value.location == PLACE + 4
    assert caught.value.value == (symbol - PLACE - 4 if kind == PC16 else symbol) % 2**64
    assert not text.any(), "a failed relocation must write nothing"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (7, "R_MIPS_GPREL16"),
        (0x05_18_07, "R_MIPS_GPREL16/R_MIPS_SUB/R_MIPS_HI16"),
        (0x12_02, "R_MIPS_32/R_MIPS_64"),
        (0x01_00_00_05, "R_MIPS_16777221"),  # against a second symbol
        (0xFF, "R_MIPS_255"),
    ],
)
def test_an_error_names_unknown_and_combined_types(kind: int, name: str) -> None:
    assert port().relocation_name(kind) == name
    text = np.zeros(16, np.uint8)
    rows = batch(PLACE, (R_64, 8, 7, 0), (kind, 0, PLACE, 0))
    with pytest.raises(UnknownRelocation) as caught:
        reloc.ABI.relocate("usb", text, rows)
    assert caught.value.kind == name
    assert not text.any()


def test_types_have_the_abis_names() -> None:
    names = {0: "NONE", 2: "32", 4: "26", 5: "HI16", 18: "64", 28: "HIGHER", 29: "HIGHEST"}
    for kind, name in names.items():
        assert port().relocation_name(kind) == f"R_MIPS_{name}"


# GNU ld

SOURCE = """
        .set noreorder
        .text
        jal far
        nop
        j near - 4
        nop
        b far
        nop
near:   lui $2, %hi(object)
        daddiu $2, $2, %lo(object)
        lui $3, %hi(object + 0x10000)
        ld $3, %lo(object + 0x10000)($3)
        lui $4, %highest(object)
        daddiu $4, $4, %higher(object)
        dsll $4, $4, 16
        daddiu $4, $4, %hi(object)
        dsll $4, $4, 16
        ld $4, %lo(object)($4)
        .dword object
        .dword near - 12
        .word local
        .section .far,"ax"
        .globl far
        .zero 0x40
far:    jr $31
        nop
        .data
        .globl object
        .zero 0x1ff78
local:  .word 2
        .word 3
object: .dword 1
"""


@pytest.mark.skipif(which(f"{TOOLS}ld") is None, reason=f"{TOOLS}ld is not installed")
def test_relocations_agree_with_gnu_ld(tmp_path: Path) -> None:
    places = {".text": PLACE, ".far": PLACE + 0x1_0000, ".data": PLACE + 0x20_0000}
    before, after, rows = linked(tmp_path, TOOLS, SOURCE, places, flags="-mips64r2 -mabi=64")
    kinds = {R_32, R_26, HI16, LO16, PC16, R_64, HIGHER, HIGHEST}
    assert {row[0] for row in rows} == kinds
    text = np.frombuffer(before, np.uint8).copy()
    reloc.ABI.relocate("m", text, batch(PLACE, *rows))
    assert text.tobytes() == after
