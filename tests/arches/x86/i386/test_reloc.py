"""i386 relocations, compared with their formulas as plain integers and with GNU ld."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.x86.i386.reloc import ABI
from dynftrace.core.arch import Relocations
from dynftrace.core.errors import ModuleError, UnknownRelocation

from ....support import relocating

PLACE = 0xF880_0000
TOOLS = "i686-linux-gnu-"


def batch(*rows: tuple[int, int, int]) -> Relocations:
    """Make relocations from rows of (type, offset, S); A is in the field."""
    return relocating.batch(PLACE, *((*row, 0) for row in rows), explicit=False)


def field_of(kind: int, symbol: int, addend: int) -> int:
    """Return the field at offset 3, which held `addend`, after one relocation."""
    text = np.zeros(16, np.uint8)
    text[3:7] = list((addend % 2**32).to_bytes(4, "little"))
    ABI.relocate("m", text, batch((kind, 3, symbol)))
    assert not text[:3].any() and not text[7:].any()
    return int.from_bytes(text[3:7].tobytes(), "little")


anywhere = st.integers(0, 2**32 - 1)
addends = st.integers(-(2**31), 2**31 - 1)


@given(s=anywhere, a=addends)
def test_r_386_32_is_s_plus_a(s: int, a: int) -> None:
    assert field_of(1, s, a) == (s + a) % 2**32


@given(s=anywhere, a=addends)
@pytest.mark.parametrize("kind", [2, 4])
def test_r_386_pc32_and_plt32_are_s_plus_a_minus_p(kind: int, s: int, a: int) -> None:
    assert field_of(kind, s, a) == (s + a - (PLACE + 3)) % 2**32


@given(a=addends)
def test_r_386_none_changes_nothing(a: int) -> None:
    assert field_of(0, 2**32 - 1, a) == a % 2**32


@pytest.mark.parametrize(("kind", "name"), [(3, "R_386_GOT32"), (77, "R_386_77")])
def test_an_error_names_an_unknown_type(kind: int, name: str) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(UnknownRelocation, match=name):
        ABI.relocate("usb", text, batch((1, 8, 7), (kind, 0, 0)))
    assert not text.any()


@pytest.mark.parametrize("offset", [13, 16, 2**31, 2**32 - 1])
def test_a_field_outside_its_section_is_refused(offset: int) -> None:
    text = np.zeros(16, np.uint8)
    with pytest.raises(ModuleError, match="outside its section"):
        ABI.relocate("usb", text, batch((1, 0, 7), (2, offset, 7)))
    assert not text.any()


def test_rela_sections_are_refused() -> None:
    explicit = replace(batch((1, 0, 7)), explicit=True)
    with pytest.raises(ModuleError, match="RELA relocations, but this ABI has only REL"):
        ABI.relocate("usb", np.zeros(16, np.uint8), explicit)


SOURCE = """
        .text
start:  call    there
        jmp     there@PLT
        mov     word + 8, %eax
        movl    $here - 4, word
        jmp     start + 0x12345
        .long   there - .
        .data
        .long   0, 0
word:   .long   1
here:   .long   0
        .section .there, "ax"
        .globl there
        nop
there:  ret
"""


@pytest.mark.skipif(which(f"{TOOLS}ld") is None, reason=f"{TOOLS}ld is not installed")
def test_relocations_agree_with_gnu_ld(tmp_path: Path) -> None:
    places = {".text": PLACE, ".data": 0x0800_0000, ".there": 0xC100_0000}
    before, after, rows = relocating.linked(tmp_path, TOOLS, SOURCE, places)
    assert {row[0] for row in rows} == {1, 2, 4}
    text = np.frombuffer(before, np.uint8).copy()
    ABI.relocate("a", text, batch(*(row[:3] for row in rows)))
    assert text.tobytes() == after
