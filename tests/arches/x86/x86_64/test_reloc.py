"""x86-64 relocations, compared with their formulas as plain integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.x86.x86_64 import reloc
from dynftrace.core.arch import Relocations
from dynftrace.core.errors import ModuleError, RelocationOverflow, UnknownRelocation

from ....support import relocating

PLACE = 0xFFFF_FFFF_A000_0000


def batch(*rows: tuple[int, int, int, int]) -> Relocations:
    """Make relocations from rows of (type, offset, S, A)."""
    return relocating.batch(PLACE, *rows)


def field_of(kind: int, symbol: int, addend: int, width: int) -> int:
    text = np.zeros(16, np.uint8)
    reloc.ABI.relocate("m", text, batch((kind, 3, symbol, addend)))
    assert not text[:3].any() and not text[3 + width :].any()
    return int.from_bytes(text[3 : 3 + width].tobytes(), "little")


top = st.integers(0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_FFFF_0000)
anywhere = st.integers(0, 2**64 - 1)
addends = st.integers(-0x8000, 0x7FFF)


@given(s=anywhere, a=addends)
def test_r_x86_64_64_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(1, s, a, 8) == (s + a) % 2**64


@given(s=st.integers(PLACE - 2**30, PLACE + 2**30), a=addends)
@pytest.mark.parametrize("kind", [2, 4])
def test_r_x86_64_pc32_and_plt32_are_s_plus_a_minus_p(kind: int, s: int, a: int) -> None:
    assert field_of(kind, s, a, 4) == (s + a - (PLACE + 3)) % 2**32


@given(s=st.integers(0x8000, 2**32 - 0x8000), a=addends)
def test_r_x86_64_32_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(10, s, a, 4) == s + a


@given(s=top, a=st.integers(0, 0x7FFF))
def test_r_x86_64_32s_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(11, s, a, 4) == (s + a) % 2**32


@given(s=anywhere, a=addends)
def test_r_x86_64_pc64_is_s_plus_a_minus_p(s: int, a: int) -> None:
    assert field_of(24, s, a, 8) == (s + a - (PLACE + 3)) % 2**64


def test_r_x86_64_none_changes_nothing() -> None:
    assert field_of(0, 2**64 - 1, 5, 0) == 0


@pytest.mark.parametrize(
    ("kind", "symbol", "name"),
    [
        (2, PLACE + 2 - 2**31, "R_X86_64_PC32"),
        (4, PLACE - 2**31 + 2, "R_X86_64_PLT32"),
        (10, 2**32, "R_X86_64_32"),
        (10, 2**64 - 1, "R_X86_64_32"),
        (11, 2**31, "R_X86_64_32S"),
    ],
)
def test_an_overflow_names_its_type(kind: int, symbol: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    rows = batch((1, 8, 7, 0), (kind, 3, symbol, 0))
    with pytest.raises(RelocationOverflow, match="relocation overflow") as caught:
        reloc.ABI.relocate("usb", text, rows)
    assert caught.value.kind == name
    assert caught.value.location == PLACE + 3
    assert not text.any(), "a failed relocation must write nothing"


@pytest.mark.parametrize(("kind", "name"), [(42, "R_X86_64_REX_GOTPCRELX"), (200, "R_X86_64_200")])
def test_an_error_names_an_unknown_type(kind: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(UnknownRelocation, match=name):
        reloc.ABI.relocate("usb", text, batch((1, 8, 7, 0), (kind, 0, 0, 0)))
    assert not text.any()


@pytest.mark.parametrize("offset", [9, 16, 2**63, 2**64 - 1])
def test_a_field_outside_its_section_is_refused(offset: int) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(ModuleError, match="outside its section"):
        reloc.ABI.relocate("usb", text, batch((1, offset, 7, 0)))


def test_a_section_smaller_than_the_field_is_refused() -> None:
    with pytest.raises(ModuleError, match="outside its section"):
        reloc.ABI.relocate("usb", np.zeros(3, np.uint8), batch((2, 0, PLACE, 0)))


def test_rel_sections_are_refused() -> None:
    implicit = replace(batch((1, 0, 7, 0)), explicit=False)
    with pytest.raises(ModuleError, match="REL"):
        reloc.ABI.relocate("usb", np.zeros(16, np.uint8), implicit)
