"""Modules' veneers, checked with Capstone and by running them."""

from __future__ import annotations

import pytest
from capstone import CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.unicorn_const import UC_ARCH_ARM64, UC_MODE_ARM, UC_TLB_VIRTUAL

from dynftrace.arches.arm64.port import GENERAL, PC
from dynftrace.arches.arm64.stub import Stubs
from dynftrace.core.arch import Function

from ...support.relocating import batch

STUBS = Stubs()
AT, BACK = 0xFFFF_8000_2000_2004, 0xFFFF_8000_2000_1000
REACH = 128 << 20


def test_the_instructions_of_a_stub() -> None:
    stub = STUBS.make(AT, Function(0xFFFF_8000_0800_9ABC), 0)
    assert len(stub) == STUBS.facts.size == STUBS.facts.code
    decoder = Cs(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN)
    code = [f"{i.mnemonic} {i.op_str}" for i in decoder.disasm(stub, AT)]
    assert code == ["adrp x16, #0xffff800008009000", "add x16, x16, #0xabc", "br x16"]


@pytest.mark.parametrize(
    "target", [0xFFFF_8000_0800_0000, 0xFFFF_8000_0900_0FFC, 0xFFFF_8000_FFFF_F000]
)
def test_a_stub_preserves_arguments_and_the_return_address(target: int) -> None:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    for place in (AT, target):
        uc.mem_map(place & ~0xFFF, 0x2000)
    uc.mem_write(AT, STUBS.make(AT, Function(target), 0))
    kept = [register.number for register in GENERAL if register.name != "x16"]
    for row, number in enumerate(kept):
        uc.reg_write(number, 0x100 + row)
    uc.emu_start(AT, target)
    assert uc.reg_read(PC.number) == target
    assert [uc.reg_read(number) for number in kept] == [0x100 + row for row in range(len(kept))]


@given(pages=st.integers(-(1 << 20), (1 << 20) - 1), place=st.integers(0, 4095))
def test_the_target_of_a_stub_is_decoded(pages: int, place: int) -> None:
    target = (AT & ~0xFFF) + (pages << 12) + place
    assert STUBS.target(AT, STUBS.make(AT, Function(target), 0), 0) == target


def test_a_stub_copied_to_another_page_has_another_target() -> None:
    stub = STUBS.make(AT, Function(0xFFFF_8000_0800_9ABC), 0)
    assert STUBS.target(AT + 0x1000, stub, 0) == 0xFFFF_8000_0800_AABC


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("bit", [0, 5, 31])
def test_changed_words_have_no_target_or_another(row: int, bit: int) -> None:
    target = 0xFFFF_8000_0800_9ABC
    damaged = bytearray(STUBS.make(AT, Function(target), 0))
    damaged[4 * row + bit // 8] ^= 1 << bit % 8
    assert STUBS.target(AT, bytes(damaged), 0) != target
    assert STUBS.target(AT, bytes(damaged[:8]), 0) is None


@pytest.mark.parametrize("distance", [1 << 32, -(1 << 32) - 0x1000])
def test_an_address_beyond_4_gb_is_refused(distance: int) -> None:
    with pytest.raises(ValueError, match="4 GB"):
        STUBS.make(AT, Function((AT & ~0xFFF) + distance), 0)
    with pytest.raises(ValueError, match="not aligned"):
        STUBS.make(AT + 2, Function(AT), 0)


def test_external_calls_and_jumps_out_of_reach_need_a_stub() -> None:
    far, near = AT + REACH, AT + REACH - 4
    rows = [
        (283, 0, far, 0),
        (282, 0, far, 0),
        (283, 4, far, 0),
        (283, 0, near, 0),
        (283, 0, AT - REACH, 0),
        (283, 0, AT - REACH - 4, 0),
        (283, 0, far, 4),
        (257, 0, far, 0),
        (283, 0, far, 0),  # of the module itself
    ]
    found = STUBS.needed(batch(AT, *rows, external=tuple(range(8))))
    assert found.tolist() == [True, True, False, False, False, True, False, False, False]
