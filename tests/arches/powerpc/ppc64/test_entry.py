"""ftrace_caller of ppc64, called from a module's site."""

from __future__ import annotations

import numpy as np
import pytest
from unicorn import Uc
from unicorn.ppc_const import UC_PPC_REG_1, UC_PPC_REG_2
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches.powerpc.ppc64.port import port
from dynftrace.core.arch import Function, Sites

from ....support.entry import entry_code

PORT = port()
ENTRY, MODULE = PORT.facts.map.tracer, PORT.facts.map.modules
STACK = PORT.facts.map.host_stack
SITE, STUB, TOC, KERNEL_TOC = MODULE, MODULE + 0x100, MODULE + 0x9000, ENTRY + 0x8000


@pytest.mark.parametrize("gone", [False, True], ids=["still there", "a nop meanwhile"])
def test_a_module_gets_its_toc_pointer_back_even_if_the_site_changed(gone: bool) -> None:
    """A CPU may be in the tracer when the site and the load after it are disabled."""
    entry = entry_code(PORT, ENTRY)
    caller, stub = (ENTRY + entry.symbols[name] for name in ("ftrace_caller", "ftrace_stub"))
    site = Sites(np.array([SITE], np.uint64), {caller: np.array([STUB], np.uint64)})
    edit = PORT.make_call(site, caller)
    uc = Uc(PORT.facts.engine.uc_arch, PORT.facts.engine.uc_mode)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    for place, content in (
        (ENTRY, entry.code),
        (MODULE, edit.replacement[0].tobytes()),
        (STACK, b""),
    ):
        uc.mem_map(place, 0x2000)
        uc.mem_write(place, content)
    uc.mem_write(STUB, PORT.stubs.make(STUB, Function(caller, KERNEL_TOC), TOC))
    uc.mem_write(STACK + 0x1000, (STACK + 0x1100).to_bytes(8, "big"))
    uc.reg_write(UC_PPC_REG_1, STACK + 0x1000)
    uc.reg_write(UC_PPC_REG_2, TOC)
    uc.emu_start(SITE, stub)
    assert uc.reg_read(UC_PPC_REG_2) == KERNEL_TOC
    if gone:
        uc.mem_write(SITE, edit.expected[0].tobytes())
    uc.emu_start(stub, SITE + 8)
    assert uc.reg_read(UC_PPC_REG_2) == TOC
    assert uc.reg_read(UC_PPC_REG_1) == STACK + 0x1000
