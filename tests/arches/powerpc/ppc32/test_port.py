"""What is particular to the ppc32 port."""

from __future__ import annotations

from dynftrace.arches.powerpc.ppc32.port import port
from dynftrace.core.abi import LOCAL_PAGE_SIZE

FACTS = port().facts


def test_the_registers_of_an_interrupt_are_in_the_kernels_order() -> None:
    names = [register.name for register in FACTS.abi.pt_regs]
    assert names == [*(f"r{n}" for n in range(32)), "nip", "ctr", "lr", "xer", "cr"]


def test_one_displacement_reaches_the_local_pages() -> None:
    assert FACTS.map.local == 2**32 - 0x8000
    assert 2 * LOCAL_PAGE_SIZE <= 0x8000


def test_a_branch_reaches_the_tracer_from_all_of_the_kernel_and_no_module() -> None:
    area, reach = FACTS.map, 32 << 20
    assert area.tracer - 0xC000_0000 < reach
    assert area.modules - area.tracer > reach
