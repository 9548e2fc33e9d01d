"""Branches as text: the facts list the branches whose target Capstone omits."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.elf.symbols import Symbol
from dynftrace.core.views.disasm import Disassembler

AT = 0xC000_1000
BC, BCLR, BCCTR = 16 << 26, 19 << 26 | 16 << 1, 19 << 26 | 528 << 1


class Nothing:
    def lookup(self, address: int) -> Symbol | None:
        return None


@pytest.fixture(params=["ppc64", "ppc32"])
def disasm(request: pytest.FixtureRequest) -> Disassembler:
    return Disassembler(arches.load(request.param).facts, Nothing())


def word(value: int) -> bytes:
    return value.to_bytes(4, "big")


def test_a_branch_to_itself_has_a_target(disasm: Disassembler) -> None:
    for value, text in (
        (0x4182_0000, "beq 0xc0001000"),
        (0x409E_0000, "bne cr7, 0xc0001000"),
        (0x4180_0001, "bltl 0xc0001000"),
        (0x4200_0000, "bdnz 0xc0001000"),
        (0x4800_0000, "b 0xc0001000"),
        (0x4800_0001, "bl 0xc0001000"),
    ):
        assert disasm.line(AT, word(value)) == text
        assert disasm.decode(AT, word(value))[0].target == AT


def test_conditional_branches_have_a_target_and_branches_to_registers_do_not(
    disasm: Disassembler,
) -> None:
    for form in range(1 << 11):  # BO, BI and LK
        fields = form >> 1 << 16 | form & 1
        (branch,) = disasm.decode(AT, word(BC | fields))
        assert branch.target == AT or not branch.decoded, f"{BC | fields:08x} {branch}"
        for to_register in (BCLR, BCCTR):
            (branch,) = disasm.decode(AT, word(to_register | fields))
            assert branch.target is None, f"{to_register | fields:08x} {branch}"
