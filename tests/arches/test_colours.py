"""Places that the emulator's caches tell apart: pages by six bits, return addresses by twelve."""

from __future__ import annotations

import pytest
from capstone import Cs

from dynftrace import arches
from dynftrace.core.elf.linker import DATA, TEXT, part_name
from dynftrace.core.ftrace.entry import CODE_REGIONS, REGION, RETURN_TO_HANDLER
from dynftrace.core.machine.memory import PAGE_SIZE

from ..support.ports import FAMILIES
from ..support.user import subject

COLOURS = 64
"""Least size of the TLB, which a page's number modulo this indexes."""


def colours(address: int, size: int) -> set[int]:
    """Return the TLB entries that the pages use."""
    return {page % COLOURS for page in range(address // PAGE_SIZE, (address + size) // PAGE_SIZE)}


@pytest.mark.parametrize("arch", arches.names())
def test_no_page_of_the_tracer_evicts_the_cpu_local_pages(arch: str) -> None:
    facts = arches.load(arch).facts
    local = colours(facts.map.local, 2 * PAGE_SIZE)
    assert len(local) == 2
    boot = subject(arch).session().boot
    regions = [each for each in boot.machine.memory.regions if each.name.startswith(REGION)]
    assert len(regions) == 4
    assert not local & set().union(*(colours(each.address, each.size) for each in regions))


CONTROLS = ("fgraph", "fprofiler", "latency", "ftrace_ops_list")
"""What the tracers read at each call. Tables of events and commands come after these."""


@pytest.mark.parametrize("arch", arches.names())
def test_what_tracers_read_at_each_call_evicts_no_code(arch: str) -> None:
    boot = subject(arch).session().boot
    names = (*CODE_REGIONS, "kernel0")
    regions = [boot.machine.memory.region(name) for name in names]
    code = set().union(*(colours(each.address, each.size) for each in regions))
    data = boot.machine.memory.region(part_name(REGION, DATA))
    places = [boot.ftrace.entry[name] for name in CONTROLS]
    assert all(data.address <= place < data.end for place in places)
    assert not code & {place // PAGE_SIZE % COLOURS for place in places}


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_tracer_and_the_kernel_have_code_in_different_places(arch: str) -> None:
    boot = subject(arch).session().boot
    tracer = boot.machine.memory.region(part_name(REGION, TEXT))
    kernel = boot.machine.memory.region("kernel0")
    assert not colours(tracer.address, tracer.size) & colours(kernel.address, kernel.size)


def slot(pc: int) -> int:
    """Return the entry of the cache of jump targets for code at `pc` (tb_jmp_cache_hash_func)."""
    mixed = pc ^ pc >> 6
    return mixed >> 6 & 0xFC0 | mixed & 0x3F


def test_returns_through_the_entry_code_do_not_evict_each_other() -> None:
    boot = subject("x86_64").session().boot
    entry, engine = boot.ftrace.entry, boot.machine.port.facts.engine
    places = [entry[RETURN_TO_HANDLER]]
    caller, regs = entry["ftrace_caller"], entry["ftrace_regs_caller"]
    for insn in Cs(engine.cs_arch, engine.cs_mode).disasm(entry.code, entry.address):
        if insn.mnemonic == "call" and not caller < regs <= insn.address < regs + 0xC0:
            places.append(insn.address + insn.size)
    assert len(places) == 4
    assert len({slot(each) for each in places}) == len(places)
