"""ftrace_caller and ftrace_regs_caller of i386: arguments and preserved registers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from unicorn import Uc
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches.x86.i386.port import port
from dynftrace.core.arch import Sites

from ....support.entry import entry_code

PORT = port()
ABI, ENTRY, STACK = PORT.facts.abi, PORT.facts.map.tracer, PORT.facts.map.host_stack
KERNEL = 0xC100_0000
IP, PARENT, OP = KERNEL + 0x100, KERNEL + 0x777, 0xD000_4000
SP = STACK + 0x1000
NUMBERS = {each.name: each.number for each in ABI.pt_regs}

GENERAL = {name: 0x1111_1111 * n for n, name in enumerate(NUMBERS, 1) if name[:2] != "ei"}
AT_ENTRY = {**GENERAL, "eip": IP, "eflags": 0x8D7, "esp": SP}
"""Registers at a site; flags are those of arithmetic, and the bit that is always 1."""

SPOILED = {name: 0xDEAD_0000 + n for n, name in enumerate(("eax", "ecx", "edx"))}
"""Registers that a tracer may change."""


@dataclass
class World:
    """A traced function that was just entered, with its site enabled."""

    caller: str
    slot: str
    uc: Uc = field(init=False)

    def __post_init__(self) -> None:
        entry = entry_code(PORT, ENTRY)
        self.labels = {name: ENTRY + offset for name, offset in entry.symbols.items()}
        site = Sites(np.array([IP], np.uint64))
        edit = PORT.make_call(site, self.labels[self.caller])
        self.uc = Uc(PORT.facts.engine.uc_arch, PORT.facts.engine.uc_mode)
        self.uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
        for place in (ENTRY, KERNEL, STACK):
            self.uc.mem_map(place, 0x2000)
        self.uc.mem_write(ENTRY, entry.code)
        self.uc.mem_write(self.labels["function_trace_op"], OP.to_bytes(4, "little"))
        self.uc.mem_write(IP, edit.replacement[0].tobytes())
        self.uc.mem_write(SP, PARENT.to_bytes(4, "little"))
        self.write(AT_ENTRY)

    def read(self) -> dict[str, int]:
        return {name: self.uc.reg_read(number) for name, number in NUMBERS.items()}

    def write(self, values: dict[str, int]) -> None:
        for name, value in values.items():
            self.uc.reg_write(NUMBERS[name], value)

    def words(self, address: int, count: int) -> list[int]:
        return np.frombuffer(self.uc.mem_read(address, 4 * count), "<u4").tolist()

    def to_the_tracer(self) -> tuple[int, int, int, int]:
        """Run to the tracer's first instruction and return its arguments."""
        self.uc.emu_start(IP, self.labels["ftrace_stub"])
        now = self.read()
        assert now["eip"] == self.labels["ftrace_stub"]
        back, regs = self.words(now["esp"], 2)
        assert back == self.labels[self.slot] + 5
        return now["eax"], now["edx"], now["ecx"], regs

    def back(self) -> dict[str, int]:
        """Return from a tracer that clobbered all it may; give the registers after the site."""
        self.write({**SPOILED, "eflags": 0x2})
        self.uc.emu_start(self.labels["ftrace_stub"], IP + 5)
        return self.read()


def test_without_saved_registers_the_tracer_gets_a_null_pointer() -> None:
    world = World("ftrace_caller", "ftrace_call")
    assert world.to_the_tracer() == (IP, PARENT, OP, 0)
    kept = AT_ENTRY | {"eip": IP + 5, "eflags": 0}
    assert world.back() | {"eflags": 0} == kept


def test_the_tracer_sees_the_registers_of_the_traced_function() -> None:
    world = World("ftrace_regs_caller", "ftrace_regs_call")
    ip, parent, op, regs = world.to_the_tracer()
    assert (ip, parent, op) == (IP, PARENT, OP)
    saved = dict(zip(NUMBERS, world.words(regs, len(NUMBERS)), strict=True))
    assert saved == AT_ENTRY | {"eip": IP + 5}
    assert world.words(saved["esp"], 1) == [PARENT]
    assert world.back() == AT_ENTRY | {"eip": IP + 5}


def test_the_function_gets_the_registers_the_tracer_changed() -> None:
    world = World("ftrace_regs_caller", "ftrace_regs_call")
    *_, regs = world.to_the_tracer()
    changed = {name: 0x5000_0000 + n for n, name in enumerate(NUMBERS)}
    changed |= {"eip": KERNEL + 0x300, "eflags": 0x6, "esp": SP + 0x40}
    world.uc.mem_write(regs, np.array([changed[name] for name in NUMBERS], "<u4").tobytes())
    world.uc.emu_start(world.labels["ftrace_stub"], KERNEL + 0x300)
    assert world.read() == changed | {"esp": SP}


@pytest.mark.parametrize("slot", ["ftrace_call", "ftrace_regs_call"])
def test_each_slot_is_a_call_that_can_be_changed(slot: str) -> None:
    world = World("ftrace_caller", "ftrace_call")
    at, stub = world.labels[slot], world.labels["ftrace_stub"]
    edit = PORT.update_ftrace_func(at, stub, ENTRY + 0x1234)
    assert world.uc.mem_read(at, 5) == edit.expected[0].tobytes()
    assert PORT.call_target(at, edit.replacement[0].tobytes()) == ENTRY + 0x1234
