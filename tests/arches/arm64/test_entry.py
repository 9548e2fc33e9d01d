"""ftrace_caller and ftrace_regs_caller, with a tracer that clobbers all it may by the ABI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from unicorn import Uc
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches.arm64.arm64 import port as regs
from dynftrace.arches.arm64.mcount import port as mcount
from dynftrace.arches.arm64.port import Arm64Port
from dynftrace.core.arch import EntryCode, Sites
from dynftrace.core.asm.assemble import assemble

from ...support.entry import entry_code
from ...support.keystone import needs_keystone

pytestmark = needs_keystone

ENTRY = regs.FACTS.map.tracer
TRACER = ENTRY + 0x2000
OP = 0xFFFF_8000_0000_0AA0
CALLER = ENTRY + 0x3000
FUNCTION = ENTRY + 0x3100
STACK = ENTRY + 0x8000

WRECK = "; ".join(
    [
        *(f"mov x{number}, #{0xBAD0 + number:#x}" for number in range(19)),
        "cmp x0, #0x10",
        "ret",
    ]
)
"""A tracer that changes every caller-saved register and the flags."""

LEAF = "mov x19, x30; ret"
"""A leaf function that returns its return address."""

SAVE = "mov x9, x30"
"""What ftrace writes before the site of a function without a frame."""

FRAMED = "stp x29, x30, [sp, #-16]!; mov x29, sp; mov x0, x30"
"""The compiler's code before a call of mcount."""


@dataclass
class World:
    """A function with a site, its caller and the entry code in an emulator."""

    port: Arm64Port
    uc: Uc
    entry: EntryCode
    site: int
    end: int
    """Address at which the caller resumes."""

    def put(self, values: Mapping[str, int]) -> None:
        numbers = {register.name: register.number for register in self.port.facts.abi.pt_regs}
        for name, value in values.items():
            self.uc.reg_write(numbers[name], value)

    def registers(self) -> dict[str, int]:
        return {each.name: self.uc.reg_read(each.number) for each in self.port.facts.abi.pt_regs}

    def word(self, address: int) -> int:
        return int.from_bytes(self.uc.mem_read(address, 8), "little")


def world(port: Arm64Port, body: str, caller: str | None, before: str = SAVE) -> World:
    """Put a site between `before` and `body`; it calls `caller`, or nothing."""
    uc = Uc(port.facts.engine.uc_arch, port.facts.engine.uc_mode)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    uc.mem_map(ENTRY, 0x10000)

    def code(source: str, at: int) -> bytes:
        return assemble(port.facts, source.replace(";", "\n"), at, lambda name: None).code

    entry = entry_code(port, ENTRY)
    labels = {name: ENTRY + offset for name, offset in entry.symbols.items()}
    uc.mem_write(ENTRY, entry.code)
    slot = port.update_ftrace_func(labels["ftrace_call"], labels["ftrace_stub"], TRACER)
    assert slot.reachable.all()
    uc.mem_write(labels["ftrace_call"], slot.replacement[0].tobytes())
    uc.mem_write(labels["function_trace_op"], OP.to_bytes(8, "little"))
    uc.mem_write(TRACER, code(WRECK, TRACER))
    start = code(before, FUNCTION)
    site = FUNCTION + len(start)
    edit = port.make_call(Sites(np.array([site], np.uint64)), labels[caller or "ftrace_caller"])
    text = (edit.expected if caller is None else edit.replacement)[0].tobytes()
    uc.mem_write(FUNCTION, start + text + code(body, site + len(text)))
    uc.mem_write(CALLER, code(f"bl {FUNCTION:#x}", CALLER))
    made = World(port, uc, entry, site, CALLER + 4)
    made.put({f"x{number}": 0x1000 + number for number in range(30)})
    made.put({"sp": STACK, "x29": STACK + 0x100, "pc": CALLER})
    return made


CALLERS = ["ftrace_caller", "ftrace_regs_caller"]


@pytest.mark.parametrize("caller", CALLERS)
def test_a_traced_leaf_function_returns_as_if_untraced(caller: str) -> None:
    seen = []
    for each in (None, caller):
        here = world(regs.port(), LEAF, each)
        here.uc.emu_start(CALLER, here.end)
        seen.append(here.registers())
    untraced, traced = seen
    assert untraced["x19"] == traced["x19"] == CALLER + 4
    assert untraced["x30"] == traced["x30"] == CALLER + 4
    kept = [*(f"x{number}" for number in (*range(9), *range(18, 31))), "sp", "pc"]
    if caller == "ftrace_regs_caller":
        kept += [*(f"x{number}" for number in range(10, 18)), "pstate"]
    assert {name: untraced[name] for name in kept} == {name: traced[name] for name in kept}


@pytest.mark.parametrize("caller", CALLERS)
def test_the_tracer_gets_ip_parent_and_ops(caller: str) -> None:
    here = world(regs.port(), LEAF, caller)
    here.uc.emu_start(CALLER, TRACER)
    found = here.registers()
    assert found["x0"] == here.site
    assert found["x1"] == CALLER + 4
    assert found["x2"] == OP
    assert (found["x3"] != 0) == (caller == "ftrace_regs_caller")
    assert found["sp"] % 16 == 0


def test_saved_registers_are_those_at_the_functions_entry() -> None:
    here = world(regs.port(), LEAF, "ftrace_regs_caller")
    here.uc.emu_start(CALLER, FUNCTION)
    entered = here.registers()
    assert here.site == FUNCTION + 4
    here.uc.emu_start(FUNCTION, TRACER)
    at = here.registers()["x3"]
    names = [register.name for register in here.port.facts.abi.pt_regs]
    saved = {name: here.word(at + 8 * row) for row, name in enumerate(names)}
    # The site put the return address into x9; pc, as in the kernel, is after the site.
    assert saved == {**entered, "x9": CALLER + 4, "pc": here.site + 4}


def test_a_tracer_may_change_the_arguments() -> None:
    here = world(regs.port(), LEAF, "ftrace_regs_caller")
    here.uc.emu_start(CALLER, TRACER)
    registers = here.registers()
    here.uc.mem_write(registers["x3"] + 8, (0x4242).to_bytes(8, "little"))
    here.uc.emu_start(TRACER, here.end)
    assert here.registers()["x1"] == 0x4242
    assert here.registers()["x2"] == 0x1002


@pytest.mark.parametrize("caller", CALLERS)
def test_the_frames_include_the_traced_function_and_its_caller(caller: str) -> None:
    here = world(regs.port(), LEAF, caller)
    here.uc.emu_start(CALLER, TRACER)
    frame = here.registers()["x29"]
    assert here.word(frame + 8) == here.site + 4
    frame = here.word(frame)
    assert here.word(frame + 8) == CALLER + 4
    assert here.word(frame) == STACK + 0x100
    assert frame < STACK


def test_mcount_takes_the_parent_from_the_frame() -> None:
    here = world(
        mcount.port(), "mov x19, x30; ldp x29, x30, [sp], #16; ret", "ftrace_caller", FRAMED
    )
    here.uc.emu_start(CALLER, TRACER)
    found = here.registers()
    assert found["x0"] == here.site
    assert found["x1"] == CALLER + 4
    assert found["x2"] == OP
    assert found["x3"] == 0
    assert here.word(found["x29"] + 8) == here.site + 4
    assert here.word(here.word(found["x29"]) + 8) == CALLER + 4
    here.uc.emu_start(TRACER, here.end)
    left = here.registers()
    assert left["x19"] == here.site + 4
    assert (left["x29"], left["sp"], left["x30"]) == (STACK + 0x100, STACK, CALLER + 4)
    assert [left[f"x{number}"] for number in range(20, 29)] == list(range(0x1014, 0x101D))


def test_only_arm64_saves_all_registers() -> None:
    for port, there in ((regs.port(), True), (mcount.port(), False)):
        entry = entry_code(port, ENTRY)
        assert ("ftrace_regs_caller" in entry.symbols) == there
        assert "ftrace_regs_call" not in entry.symbols
