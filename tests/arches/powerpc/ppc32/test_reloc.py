"""ppc32 relocations, compared with their formulas as plain integers and with GNU ld."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.powerpc.ppc32 import reloc
from dynftrace.core.errors import ModuleError, RelocationOverflow, UnknownRelocation

from ....support.relocating import batch, linked

PLACE = 0xD100_0000
TOOLS = "powerpc-linux-gnu-"


def field_of(kind: int, symbol: int, addend: int, width: int, was: int = 0) -> int:
    """Return the field at offset 4, which held `was`, after one relocation."""
    text = np.zeros(16, np.uint8)
    text[4 : 4 + width] = list(was.to_bytes(width, "big"))
    reloc.ABI.relocate("m", text, batch(PLACE, (kind, 4, symbol, addend)))
    assert not text[:4].any() and not text[4 + width :].any()
    return int.from_bytes(text[4 : 4 + width].tobytes(), "big")


anywhere = st.integers(0, 2**32 - 1)
addends = st.integers(-0x8000, 0x7FFF)


@given(s=anywhere, a=addends)
def test_addr32_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(1, s, a, 4) == (s + a) % 2**32


@given(s=anywhere, a=addends)
def test_rel32_is_s_plus_a_minus_p(s: int, a: int) -> None:
    assert field_of(26, s, a, 4) == (s + a - (PLACE + 4)) % 2**32


@given(s=anywhere, a=addends)
def test_ha_and_signed_lo_make_the_address(s: int, a: int) -> None:
    high, low = field_of(6, s, a, 2), field_of(4, s, a, 2)
    signed = low - 0x1_0000 if low & 0x8000 else low
    assert ((high << 16) + signed) % 2**32 == (s + a) % 2**32
    assert field_of(5, s, a, 2) == (s + a) % 2**32 >> 16


@given(distance=st.integers(-(2**23), 2**23 - 1), word=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("kind", [10, 23])
def test_a_branch_is_relocated_in_words_and_keeps_other_bits(
    kind: int, distance: int, word: int
) -> None:
    field = field_of(kind, PLACE + 4 + 4 * distance, 0, 4, was=word)
    assert field & 0xFC00_0003 == word & 0xFC00_0003
    assert field >> 2 & 0xFF_FFFF == distance % 2**24


def test_none_changes_nothing() -> None:
    assert field_of(0, 2**32 - 1, 5, 0) == 0


@pytest.mark.parametrize("symbol", [PLACE + 4 + 2**25, PLACE - 2**25, PLACE + 2, 0xC000_0000])
@pytest.mark.parametrize(("kind", "name"), [(10, "R_PPC_REL24"), (23, "R_PPC_LOCAL24PC")])
def test_a_branch_out_of_reach_is_an_overflow(kind: int, name: str, symbol: int) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(RelocationOverflow, match="relocation overflow") as caught:
        reloc.ABI.relocate("usb", text, batch(PLACE, (1, 8, 7, 0), (kind, 4, symbol, 0)))
    assert caught.value.kind == name
    assert caught.value.location == PLACE + 4
    assert caught.value.value == (symbol - (PLACE + 4)) % 2**32
    assert not text.any(), "a failed relocation must write nothing"


@pytest.mark.parametrize(("kind", "name"), [(18, "R_PPC_PLTREL24"), (200, "R_PPC_200")])
def test_an_error_names_an_unknown_type(kind: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(UnknownRelocation, match=name):
        reloc.ABI.relocate("usb", text, batch(PLACE, (1, 8, 7, 0), (kind, 0, 0, 0)))
    assert not text.any()


def test_rel_sections_are_refused() -> None:
    rows = replace(batch(PLACE, (1, 0, 7, 0)), explicit=False)
    with pytest.raises(ModuleError, match="REL"):
        reloc.ABI.relocate("usb", np.zeros(16, np.uint8), rows)


def test_a_call_of_a_stub_changes_only_its_field() -> None:
    text = np.frombuffer(bytes.fromhex("48000001 60000000"), np.uint8).copy()
    reloc.ABI.relocate("usb", text, batch(PLACE, (10, 0, PLACE + 0x100, 0), stub=(0,)))
    assert text.tobytes() == bytes.fromhex("48000101 60000000")


SOURCE = """
        .text
        bl far
        b far
        lis 9,object@ha
        lwz 9,object@l(9)
        addi 9,9,object+4@l
        lis 9,object@h
        .long object
        .long object - .
        .section .far,"ax"
        .zero 0x40
far:    blr
        .data
        .zero 0x1ff48
object: .long 1
"""


@pytest.mark.skipif(which(f"{TOOLS}ld") is None, reason=f"{TOOLS}ld is not installed")
def test_relocations_agree_with_gnu_ld(tmp_path: Path) -> None:
    places = {".text": PLACE, ".far": PLACE + 0x10_0000, ".data": PLACE + 0x20_0000}
    before, after, rows = linked(tmp_path, TOOLS, SOURCE, places)
    assert {row[0] for row in rows} == {1, 4, 5, 6, 10, 26}
    text = np.frombuffer(before, np.uint8).copy()
    reloc.ABI.relocate("m", text, batch(PLACE, *rows))
    assert text.tobytes() == after
