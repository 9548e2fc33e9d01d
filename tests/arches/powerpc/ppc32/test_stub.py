"""ppc32 stubs, checked with Capstone and by running them."""

from __future__ import annotations

import pytest
from capstone import CS_ARCH_PPC, CS_MODE_32, CS_MODE_BIG_ENDIAN, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.ppc_const import UC_PPC_REG_0, UC_PPC_REG_LR, UC_PPC_REG_PC
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_MODE_BIG_ENDIAN,
    UC_MODE_PPC32,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches.powerpc.ppc32.stub import Stubs
from dynftrace.core.arch import Function

from ....support.relocating import batch

STUBS = Stubs()
AT, BACK = 0xD100_2000, 0xD100_1000


def test_the_instructions_of_a_stub() -> None:
    stub = STUBS.make(AT, Function(0xC000_9ABC), 0)
    assert stub == bytes.fromhex("3d80c001 398c9abc 7d8903a6 4e800420")
    assert len(stub) == STUBS.facts.size == STUBS.facts.code
    decoder = Cs(CS_ARCH_PPC, CS_MODE_32 | CS_MODE_BIG_ENDIAN)
    code = [f"{i.mnemonic} {i.op_str}".strip() for i in decoder.disasm(stub, AT)]
    assert code == ["lis r12, -0x3fff", "addi r12, r12, -0x6544", "mtctr r12", "bctr"]


@pytest.mark.parametrize("target", [0xC000_0000, 0xC000_8000, 0xC123_FFFC, 0x7FFF_8000])
def test_a_stub_preserves_arguments_and_the_return_address(target: int) -> None:
    uc = Uc(UC_ARCH_PPC, UC_MODE_PPC32 | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    for place in (AT, target):
        uc.mem_map(place & ~0xFFF, 0x2000)
    uc.mem_write(AT, STUBS.make(AT, Function(target), 0))
    kept = [number for number in range(32) if number != 12]
    for number in kept:
        uc.reg_write(UC_PPC_REG_0 + number, 0x100 + number)
    uc.reg_write(UC_PPC_REG_LR, BACK)
    uc.emu_start(AT, target)
    assert uc.reg_read(UC_PPC_REG_PC) == target
    assert uc.reg_read(UC_PPC_REG_LR) == BACK
    assert [uc.reg_read(UC_PPC_REG_0 + n) for n in kept] == [0x100 + n for n in kept]


@given(target=st.integers(0, 2**32 - 1))
def test_the_target_of_a_stub_is_decoded(target: int) -> None:
    assert STUBS.target(AT, STUBS.make(AT, Function(target), 0), 0) == target


@pytest.mark.parametrize(
    "stub",
    [
        "3d60c001 398c9abc 7d8903a6 4e800420",  # lis r11
        "3d80c001 38809abc 7d8903a6 4e800420",  # li r4
        "3d80c001 398c9abc 7d6903a6 4e800420",  # mtctr r11
        "3d80c001 398c9abc 7d8903a6 4e800421",  # bctrl
        "3d80c001 398c9abc 7d8903a6",
    ],
)
def test_only_a_stub_has_a_target(stub: str) -> None:
    assert STUBS.target(AT, bytes.fromhex(stub), 0) is None


@pytest.mark.parametrize("target", [-4, 2**32])
def test_an_address_beyond_32_bits_is_refused(target: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        STUBS.make(AT, Function(target), 0)


def test_external_calls_out_of_reach_need_a_stub() -> None:
    far, near = 0xC000_0000, AT + (1 << 25)
    rows = [(10, 0, far, 0), (10, 4, far, 0), (10, 4, near, 0), (10, 0, near, 0), (1, 0, far, 0)]
    relocations = batch(AT, *rows, external=(1, 2, 3, 4))
    assert STUBS.needed(relocations).tolist() == [False, True, False, True, False]
