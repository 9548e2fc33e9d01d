"""Properties of the ppc32 port only."""

from __future__ import annotations

from dynftrace.arches.powerpc.ppc32.port import port
from dynftrace.core.abi import LOCAL_PAGE_SIZE

FACTS = port().facts


def test_interrupt_registers_have_the_kernels_order() -> None:
    names = [register.name for register in FACTS.abi.pt_regs]
    assert names == [*(f"r{n}" for n in range(32)), "nip", "ctr", "lr", "xer", "cr"]


def test_one_displacement_reaches_the_local_pages() -> None:
    assert FACTS.map.local == 2**32 - 0x8000
    assert 2 * LOCAL_PAGE_SIZE <= 0x8000


def test_the_kernel_reaches_the_tracer_and_modules_do_not() -> None:
    area, reach = FACTS.map, 32 << 20
    assert area.tracer - 0xC000_0000 < reach
    assert area.modules - area.tracer > reach
