"""The call at a site, run from the function's start: registers are kept, ip is passed."""

from __future__ import annotations

import numpy as np
import pytest
from unicorn import UC_ARCH_X86, UC_HOOK_CODE, UC_MODE_64, Uc, x86_const
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches.x86.x86_64_2008.port import port
from dynftrace.core.arch import Sites
from dynftrace.core.elf.image import Image
from dynftrace.core.ftrace.sites import calls_of_mcount

from ....support.entry import entry_code

PORT = port()
IMAGE = Image.load(PORT.images() / "vmlinux.elf", PORT.facts)
ENTRY = PORT.facts.map.tracer
STACK, PARENT = 0xFFFF_C900_0000_0000, 0xFFFF_FFFF_8123_4567
NUMBERS = {
    register.name: register.number
    for register in PORT.facts.abi.pt_regs
    if register.name not in ("rip", "rflags")
}


def symbol(name: str) -> int:
    address = IMAGE.symbols.address_of(name)
    assert address is not None
    return address


def read(address: int, size: int) -> bytes:
    text = IMAGE.read(address, size)
    assert text is not None
    return text.tobytes()


SITES = calls_of_mcount(PORT, IMAGE, read)


class Cpu:
    """An emulator with the image and the entry code that records calls and arguments."""

    def __init__(self) -> None:
        self.uc = Uc(UC_ARCH_X86, UC_MODE_64)
        self.uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
        self.uc.mem_map(0xFFFF_FFFF_8100_0000, 0x80_0000)
        self.uc.mem_map(ENTRY, 0x1000)
        self.uc.mem_map(STACK, 0x4000)
        for segment in IMAGE.segments:
            self.uc.mem_write(segment.address, IMAGE.segment_data(segment).tobytes())
        entry = entry_code(PORT, ENTRY)
        self.uc.mem_write(ENTRY, entry.code)
        self.labels = {name: ENTRY + at for name, at in entry.symbols.items()}
        self.told: list[tuple[int, int]] = []

    def watch(self, address: int) -> None:
        def note(uc: Uc, at: int, size: int, data: object) -> None:
            self.told.append(
                (uc.reg_read(x86_const.UC_X86_REG_RDI), uc.reg_read(x86_const.UC_X86_REG_RSI))
            )

        self.uc.hook_add(UC_HOOK_CODE, note, None, address, address)

    def run(self, start: int, end: int) -> dict[str, int]:
        """Run from a function's first instruction to `end`; return the registers there."""
        for row, name in enumerate(NUMBERS):
            self.uc.reg_write(NUMBERS[name], 0x1111_0000_0000 * row + 7)
        self.uc.reg_write(NUMBERS["rsp"], STACK + 0x3FF8)
        self.uc.mem_write(STACK + 0x3FF8, PARENT.to_bytes(8, "little"))
        self.uc.emu_start(start, end, count=500)
        assert self.uc.reg_read(x86_const.UC_X86_REG_RIP) == end
        return {name: self.uc.reg_read(number) for name, number in NUMBERS.items()}


def start_of(ip: int) -> int:
    starts = IMAGE.symbols.address[IMAGE.symbols.by_address]
    return int(starts[np.searchsorted(starts, np.uint64(ip), "right") - 1])


def call(ip: int, target: int) -> bytes:
    site = Sites(np.array([ip], np.uint64))
    return PORT.modify_call(site, target, target).expected[0].tobytes()


@pytest.mark.parametrize("way", ["mcount", "mcount_indirect", "ftrace_caller"])
def test_registers_are_preserved_and_ip_and_parent_are_passed(way: str) -> None:
    offsets = set()
    for ip in SITES[::25].tolist():
        start, end = start_of(ip), ip + 5
        offsets.add(ip - start)
        cpu = Cpu()
        cpu.uc.mem_write(ip, bytes.fromhex("0f 1f 44 00 00"))
        quiet = cpu.run(start, end)
        cpu = Cpu()
        target = ENTRY if way == "ftrace_caller" else symbol(way)
        cpu.uc.mem_write(ip, call(ip, target))
        stub = cpu.labels["ftrace_stub"] if way == "ftrace_caller" else symbol("ftrace_stub")
        if way == "mcount_indirect":
            # Not the stub for which it skips the call.
            stub = symbol("mcount_indirect") + 14
            assert read(stub, 1) == b"\xc3"
            cpu.uc.mem_write(symbol("ftrace_trace_function"), stub.to_bytes(8, "little"))
        cpu.watch(stub)
        assert cpu.run(start, end) == quiet, hex(ip)
        # The final return of ftrace_caller is ftrace_stub.
        assert cpu.told[0] == (ip, PARENT), hex(ip)
        assert len(cpu.told) == (2 if way == "ftrace_caller" else 1)
    assert len(offsets) > 3, "prologues must have several lengths"


def test_without_a_tracer_the_pointer_is_not_called() -> None:
    ip = int(SITES[0])
    cpu = Cpu()
    cpu.uc.mem_write(ip, call(ip, symbol("mcount_indirect")))
    cpu.watch(symbol("ftrace_stub"))
    cpu.run(start_of(ip), ip + 5)
    assert not cpu.told


def test_every_site_comes_after_the_functions_frame() -> None:
    frame = bytes.fromhex("55 48 89 e5")  # push rbp; mov rbp, rsp
    for ip in SITES.tolist():
        start = start_of(ip)
        assert frame in read(start, ip - start), hex(ip)
