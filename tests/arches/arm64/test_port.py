"""Properties of the arm64 ports only: addresses, registers."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.arches.arm64 import insn
from dynftrace.arches.arm64.arm64 import port as regs
from dynftrace.arches.arm64.mcount import port as mcount
from dynftrace.core.facts import Facts

REACH = 128 << 20
KERNEL = 0xFFFF_8000_0800_0000
"""KIMAGE_VADDR of Linux 6.1 with 48-bit addresses."""

TRACER = 0x10_0000
"""More bytes than entry code and tracer occupy."""


@pytest.fixture(params=[regs.FACTS, mcount.FACTS], ids=lambda facts: facts.name)
def facts(request: pytest.FixtureRequest) -> Facts:
    assert isinstance(request.param, Facts)
    return request.param


def test_interrupt_registers_are_those_of_user_pt_regs(facts: Facts) -> None:
    names = [register.name for register in facts.abi.pt_regs]
    assert names == [*(f"x{n}" for n in range(31)), "sp", "pc", "pstate"]


def test_near_modules_reach_the_tracer_and_the_kernel(facts: Facts) -> None:
    area = facts.map
    assert area.modules_end == KERNEL
    assert KERNEL - area.modules < 128 << 20
    assert area.tracer + TRACER - area.modules < REACH


def test_far_modules_reach_both_only_through_stubs(facts: Facts) -> None:
    assert facts.modules_far is not None
    start, end = facts.modules_far
    assert start - (facts.map.tracer + TRACER) > REACH
    assert end - facts.map.modules < 1 << 31  # PREL32 too
    assert start % 4096 == end % 4096 == 0


def test_one_instruction_loads_the_address_of_the_local_pages(facts: Facts) -> None:
    assert 2**64 - facts.map.local <= 1 << 16  # movn


def test_the_current_task_of_a_kernel_without_a_boot() -> None:
    start = 0xFFFF_8000_0800_1FF8
    code = insn.pack(insn.BTI_C, insn.adrp(4, 0x30), insn.add(4, 4, 0xD80), 0xD518_4104)

    class Kernel:
        def __init__(self, task: int | None, code: bytes) -> None:
            self.task, self.code = task, code

        def address(self, name: str) -> int | None:
            return self.task if name == "init_task" else None

        def text(self, place: str | int) -> tuple[int, bytes]:
            return start, self.code

    port = arches.load("arm64")
    expected = 0xFFFF_8000_0803_1D80
    for kernel in (Kernel(expected, b""), Kernel(None, code)):
        found = port.unbooted(kernel)
        assert {register.name: value for register, value in found.items()} == {"sp_el0": expected}
    other = insn.pack(insn.adrp(4, 0x30), insn.add(5, 4, 0xD80), 0xD518_4104)
    for text in (b"", other, code[:-4]):
        assert port.unbooted(Kernel(None, text)) == {}
