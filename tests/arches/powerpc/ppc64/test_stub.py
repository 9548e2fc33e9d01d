"""ppc64 stubs, checked with the manual, Capstone and by running them."""

from __future__ import annotations

import numpy as np
import pytest
from capstone import CS_ARCH_PPC, CS_MODE_64, CS_MODE_BIG_ENDIAN, Cs
from hypothesis import given
from hypothesis import strategies as st
from unicorn import Uc
from unicorn.ppc_const import (
    UC_PPC_REG_0,
    UC_PPC_REG_1,
    UC_PPC_REG_2,
    UC_PPC_REG_3,
    UC_PPC_REG_LR,
    UC_PPC_REG_PC,
)
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_MODE_BIG_ENDIAN,
    UC_MODE_PPC64,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches.powerpc.ppc64.stub import Stubs
from dynftrace.core.arch import Function

from ....support.relocating import batch

STUBS = Stubs()
AT, TOC = 0xD000_0000_0000_2000, 0xD000_0000_0001_8000
KERNEL, KERNEL_TOC = 0xC000_0000_0000_1234, 0xC000_0000_0080_8000
TARGET = Function(KERNEL, KERNEL_TOC)

distances = st.integers(-(2**31) + 0x8000, 2**31 - 0x8001)


def engine(*places: int) -> Uc:
    uc = Uc(UC_ARCH_PPC, UC_MODE_PPC64 | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    for place in places:
        uc.mem_map(place & ~0xFFF, 0x4000)
    return uc


def test_the_instructions_of_a_stub() -> None:
    stub = STUBS.make(AT, TARGET, TOC)
    assert len(stub) == STUBS.facts.size
    assert stub == bytes.fromhex(
        "3d82ffff 398ca000 f8410028 e96c0020 e84c0028 7d6903a6 4e800420 00000000"
        "c000000000001234 c000000000808000"
    )
    decoder = Cs(CS_ARCH_PPC, CS_MODE_64 | CS_MODE_BIG_ENDIAN)
    code = [f"{i.mnemonic} {i.op_str}".strip() for i in decoder.disasm(stub[:28], AT)]
    assert code == [
        "addis r12, r2, -1",
        "addi r12, r12, -0x6000",
        "std r2, 0x28(r1)",
        "ld r11, 0x20(r12)",
        "ld r2, 0x28(r12)",
        "mtctr r11",
        "bctr",
    ]


@pytest.mark.parametrize("distance", [-0x1_6000, 0x40, 0x7FF0, 0x8000, 0x1234_8000, -0x8000_8000])
def test_a_stub_loads_the_callees_toc_and_saves_the_callers(distance: int) -> None:
    sp, back = 0xC000_0000_1000_2000, AT + 0x1000
    toc = AT - distance
    uc = engine(AT, KERNEL, sp)
    uc.mem_write(AT, STUBS.make(AT, TARGET, toc))
    for number in range(3, 11):
        uc.reg_write(UC_PPC_REG_0 + number, number)
    uc.reg_write(UC_PPC_REG_1, sp)
    uc.reg_write(UC_PPC_REG_2, toc)
    uc.reg_write(UC_PPC_REG_LR, back)
    uc.emu_start(AT, KERNEL)
    assert uc.reg_read(UC_PPC_REG_PC) == KERNEL
    assert uc.reg_read(UC_PPC_REG_2) == KERNEL_TOC
    assert int.from_bytes(uc.mem_read(sp + 40, 8), "big") == toc
    assert uc.reg_read(UC_PPC_REG_1) == sp
    assert uc.reg_read(UC_PPC_REG_LR) == back
    assert [uc.reg_read(UC_PPC_REG_0 + number) for number in range(3, 11)] == [*range(3, 11)]


def test_a_call_through_a_stub_returns_with_the_callers_toc() -> None:
    """`bl stub; ld r2,40(r1)` in the module, `li r3,5; blr` in the kernel."""
    sp, site = 0xC000_0000_1000_2000, AT - 0x100
    uc = engine(AT - 0x1000, KERNEL, sp)
    uc.mem_write(AT, STUBS.make(AT, TARGET, TOC))
    uc.mem_write(site, bytes.fromhex("48000101 e8410028"))
    uc.mem_write(KERNEL, bytes.fromhex("38600005 4e800020"))
    uc.reg_write(UC_PPC_REG_1, sp)
    uc.reg_write(UC_PPC_REG_2, TOC)
    uc.emu_start(site, site + 8)
    assert uc.reg_read(UC_PPC_REG_3) == 5
    assert uc.reg_read(UC_PPC_REG_2) == TOC


@given(distance=distances, entry=st.integers(0, 2**64 - 1))
def test_the_target_of_a_stub_is_decoded(distance: int, entry: int) -> None:
    stub = STUBS.make(AT, Function(entry, KERNEL_TOC), AT - distance)
    assert STUBS.target(AT, stub, AT - distance) == entry


@pytest.mark.parametrize("word", range(7))
def test_a_stub_with_one_wrong_word_has_no_target(word: int) -> None:
    stub = bytearray(STUBS.make(AT, TARGET, TOC))
    stub[4 * word + 3] ^= 4
    assert STUBS.target(AT, bytes(stub), TOC) is None


def test_an_unmapped_or_short_stub_has_no_target() -> None:
    stub = STUBS.make(AT, TARGET, TOC)
    assert STUBS.target(AT + 16, stub, TOC) is None
    assert STUBS.target(AT, stub, TOC + 8) is None
    assert STUBS.target(AT, stub, 0) is None
    assert STUBS.target(AT, stub[:40], TOC) is None


def test_a_changed_descriptor_changes_the_target() -> None:
    stub = STUBS.make(AT, TARGET, TOC)
    assert STUBS.target(AT, stub[:39] + b"\x78" + stub[40:], TOC) == KERNEL - 0x34 + 0x78


@pytest.mark.parametrize("distance", [0x7FFF_8000, -0x8000_8001, 1 << 60])
def test_a_stub_too_far_from_its_toc_pointer_is_refused(distance: int) -> None:
    with pytest.raises(ValueError, match="from the TOC pointer"):
        STUBS.make(AT, TARGET, AT - distance)


def test_a_target_without_a_toc_pointer_is_refused() -> None:
    with pytest.raises(ValueError, match="no TOC pointer"):
        STUBS.make(AT, Function(KERNEL), TOC)


def test_external_calls_need_a_stub_at_any_distance() -> None:
    rows = [(10, 0, AT, 0), (10, 8, AT, 0), (38, 16, AT, 0), (10, 24, AT, 4), (10, 32, KERNEL, 0)]
    relocations = batch(AT, *rows, external=(1, 2, 3, 4))
    assert STUBS.needed(relocations).tolist() == [False, True, False, False, True]
    assert not relocations.stub.any()
    assert STUBS.needed(batch(AT, *rows)).dtype == np.bool_
