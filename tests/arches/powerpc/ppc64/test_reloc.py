"""ppc64 relocations, compared with their formulas as plain integers and with GNU ld."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.powerpc.ppc64 import reloc
from dynftrace.core.errors import ModuleError, RelocationOverflow, UnknownRelocation

from ....support.relocating import batch, linked

PLACE = 0xD000_0000_0000_0000
TOC = PLACE + 0x1_8000
TOOLS = "powerpc64-linux-gnu-"
BL, NOP, LD_R2 = bytes.fromhex("48000001"), bytes.fromhex("60000000"), bytes.fromhex("e8410028")


def field_of(kind: int, symbol: int, addend: int, width: int, was: int = 0) -> int:
    """Return the field at offset 4, which held `was`, after one relocation."""
    text = np.zeros(16, np.uint8)
    text[4 : 4 + width] = list(was.to_bytes(width, "big"))
    reloc.ABI.relocate("m", text, batch(PLACE, (kind, 4, symbol, addend), toc=TOC))
    assert not text[:4].any() and not text[4 + width :].any()
    return int.from_bytes(text[4 : 4 + width].tobytes(), "big")


anywhere = st.integers(0, 2**64 - 1)
addends = st.integers(-0x8000, 0x7FFF)
near_toc = st.integers(TOC - 0x4000, TOC + 0x3FFF)
within_2gb = st.integers(TOC - 2**31 + 0x1_0000, TOC + 2**31 - 0x2_0000)


@given(s=anywhere, a=addends)
def test_addr64_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(38, s, a, 8) == (s + a) % 2**64


@given(s=st.integers(0x8000, 2**32 - 0x8000), a=addends)
def test_addr32_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(1, s, a, 4) == s + a


@given(s=within_2gb, a=addends)
def test_rel32_and_rel64_are_s_plus_a_minus_p(s: int, a: int) -> None:
    assert field_of(26, PLACE + s - TOC, a, 4) == (s - TOC + a - 4) % 2**32
    assert field_of(44, s, a, 8) == (s + a - (PLACE + 4)) % 2**64


@given(distance=st.integers(-(2**23), 2**23 - 1), word=st.integers(0, 2**32 - 1))
def test_rel24_is_a_distance_in_words_and_keeps_other_bits(distance: int, word: int) -> None:
    field = field_of(10, PLACE + 4 + 4 * distance, 0, 4, was=word)
    assert field & 0xFC00_0003 == word & 0xFC00_0003
    assert field >> 2 & 0xFF_FFFF == distance % 2**24


@given(s=near_toc, a=st.integers(-0x4000, 0x3FFF))
def test_toc16_is_s_plus_a_minus_toc(s: int, a: int) -> None:
    assert field_of(47, s, a, 2) == (s + a - TOC) % 2**16


@given(s=within_2gb, a=addends)
def test_ha_and_signed_lo_make_the_distance_from_the_toc(s: int, a: int) -> None:
    high, low = field_of(50, s, a, 2), field_of(48, s, a, 2)
    signed = low - 0x1_0000 if low & 0x8000 else low
    assert ((high << 16) + signed) % 2**32 == (s + a - TOC) % 2**32
    assert field_of(49, s, a, 2) == (s + a - TOC) % 2**32 >> 16


@given(s=within_2gb.map(lambda s: s & ~3), xo=st.integers(0, 3))
def test_ds_fields_keep_the_extended_opcode(s: int, xo: int) -> None:
    assert field_of(64, s, 8, 2, was=xo) == (s + 8 - TOC) % 2**16 | xo
    assert field_of(63, TOC - 0x4000, 8, 2, was=xo) == 0xC008 | xo


def test_toc_is_the_toc_pointer_for_any_symbol() -> None:
    assert field_of(51, 0, 0, 8) == TOC


def test_none_changes_nothing() -> None:
    assert field_of(0, 2**64 - 1, 5, 0) == 0


@pytest.mark.parametrize(
    ("kind", "symbol", "name"),
    [
        (1, 2**32, "R_PPC64_ADDR32"),
        (10, PLACE + 2 + 2**25, "R_PPC64_REL24"),
        (10, PLACE + 8 + 2**25, "R_PPC64_REL24"),
        (10, PLACE + 2, "R_PPC64_REL24"),
        (10, 0xC000_0000_0000_0000, "R_PPC64_REL24"),
        (26, PLACE + 8 + 2**31, "R_PPC64_REL32"),
        (47, TOC + 0x8000, "R_PPC64_TOC16"),
        (49, TOC + 2**31, "R_PPC64_TOC16_HI"),
        (50, TOC + 2**31 - 0x8000, "R_PPC64_TOC16_HA"),
        (63, TOC + 6, "R_PPC64_TOC16_DS"),
        (63, TOC - 0x8004, "R_PPC64_TOC16_DS"),
        (64, TOC + 2, "R_PPC64_TOC16_LO_DS"),
    ],
)
def test_an_overflow_names_its_type(kind: int, symbol: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(RelocationOverflow, match="relocation overflow") as caught:
        reloc.ABI.relocate("usb", text, batch(PLACE, (38, 8, 7, 0), (kind, 4, symbol, 0), toc=TOC))
    assert caught.value.kind == name
    assert caught.value.location == PLACE + 4
    assert not text.any(), "nothing may be written"


@pytest.mark.parametrize(("kind", "name"), [(6, "R_PPC64_ADDR16_HA"), (200, "R_PPC64_200")])
def test_an_error_names_an_unknown_type(kind: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(UnknownRelocation, match=name):
        reloc.ABI.relocate("usb", text, batch(PLACE, (38, 8, 7, 0), (kind, 0, 0, 0)))
    assert not text.any()


def test_rel_sections_are_refused() -> None:
    rows = replace(batch(PLACE, (38, 0, 7, 0)), explicit=False)
    with pytest.raises(ModuleError, match="REL"):
        reloc.ABI.relocate("usb", np.zeros(16, np.uint8), rows)


# The instruction after a call of a stub


def test_the_nop_after_a_call_of_a_stub_becomes_the_load_of_r2() -> None:
    text = np.frombuffer((BL + NOP) * 3, np.uint8).copy()
    rows = [(10, offset, PLACE + 0x100, 0) for offset in (0, 8, 16)]
    reloc.ABI.relocate("usb", text, batch(PLACE, *rows, stub=(0, 2)))
    assert text.tobytes() == b"".join(
        [
            *(bytes.fromhex("48000101"), LD_R2),
            *(bytes.fromhex("480000f9"), NOP),
            *(bytes.fromhex("480000f1"), LD_R2),
        ]
    )


@pytest.mark.parametrize(
    ("behind", "got"), [(LD_R2, "e8410028"), (bytes(4), "00000000"), (b"", "nothing")]
)
def test_without_a_nop_after_the_call_the_module_is_refused(behind: bytes, got: str) -> None:
    before = BL + NOP + BL + behind
    text = np.frombuffer(before, np.uint8).copy()
    rows = batch(PLACE, (10, 0, PLACE, 0), (10, 8, PLACE, 0), stub=(0, 1))
    with pytest.raises(ModuleError) as caught:
        reloc.ABI.relocate("usb", text, rows)
    assert str(caught.value) == (
        f"module usb: Expected nop after call, got {got} at {PLACE + 12:x}"
    )
    assert text.tobytes() == before, "nothing may be written"


# GNU ld

SOURCE = """
        .machine power4
        .text
        bl far
        nop
        b far
        addis 9,2,object@toc@ha
        ld 9,object@toc@l(9)
        addi 9,9,object@toc@l
        std 9,object+8@toc@l(9)
        addis 9,2,object@toc@h
        addis 9,2,below@toc@ha
        stdu 9,below@toc@l(9)
        .quad object
        .quad object - .
        .quad .TOC.@tocbase
        .long below - .
        ld 3,near@toc(2)
        addi 3,2,near@toc
        .section .far,"ax"
        .zero 0x40
far:    blr
        .section .toc,"aw"
        .zero 0x1230
near:   .quad 5
        .data
below:  .zero 0x1ff48
object: .quad 1
"""


@pytest.mark.skipif(which(f"{TOOLS}ld") is None, reason=f"{TOOLS}ld is not installed")
def test_relocations_agree_with_gnu_ld(tmp_path: Path) -> None:
    places = {".text": PLACE, ".far": PLACE + 0x10_0000, ".data": PLACE + 0x20_0000}
    places[".toc"] = PLACE + 0x3F_0000
    before, after, rows = linked(tmp_path, TOOLS, SOURCE, places, "--no-toc-optimize")
    assert {row[0] for row in rows} == {10, 26, 38, 44, 47, 48, 49, 50, 51, 63, 64}
    text = np.frombuffer(before, np.uint8).copy()
    reloc.ABI.relocate("m", text, batch(PLACE, *rows, toc=PLACE + 0x3F_8000))
    assert text.tobytes() == after
