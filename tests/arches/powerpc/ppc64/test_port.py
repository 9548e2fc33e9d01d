"""Properties of the ppc64 port only: its table of sites, TOC pointers and images."""

from __future__ import annotations

import numpy as np

from dynftrace.arches.powerpc.ppc64.port import port
from dynftrace.core.abi import LOCAL_PAGE_SIZE
from dynftrace.core.elf.image import Image

PORT = port()
FACTS = PORT.facts


def test_interrupt_registers_have_the_kernels_order() -> None:
    names = [register.name for register in FACTS.abi.pt_regs]
    assert names == [*(f"r{n}" for n in range(32)), "nip", "ctr", "lr", "xer", "cr"]


def test_one_displacement_reaches_the_local_pages() -> None:
    assert FACTS.map.local == 2**64 - 0x8000
    assert 2 * LOCAL_PAGE_SIZE <= 0x8000


def test_the_kernels_descriptors_share_one_toc_pointer() -> None:
    kernel = Image.load(PORT.images() / "vmlinux.elf", FACTS)
    toc = FACTS.abi.toc
    assert toc is not None
    opd = kernel.section(toc.opd)
    assert opd is not None
    entry, pointer, _ = kernel.words(kernel.data(opd).tobytes()).reshape(-1, 3).T
    assert len(np.unique(pointer)) == 1
    names = ["schedule", "_mcount"]
    for name in names:
        descriptor, code = (kernel.symbols.address_of(each) for each in (name, toc.prefix + name))
        assert descriptor is not None
        assert int(entry[(descriptor - opd.address) // 24]) == code
