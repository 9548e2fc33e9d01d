"""A branch and its delay slot are one unit, even if the engine splits them."""

from __future__ import annotations

from collections import deque

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.machine.memory import PAGE_SIZE, Memory
from dynftrace.core.machine.vcpu import Read, Stop, Vcpu, Why

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

FAR = 10**9

ROUNDS = """
        addiu $v0, $zero, 8
next:   b one
        lw $v1, 0($a0)
        nop
one:    addiu $a1, $a1, 1
        addiu $a0, $a0, 0x1000
        b two
        sw $v1, 0x1000($a0)
        nop
two:    bne $v0, $a1, next
        nop"""
"""Eight loads and stores in delay slots, each in another page; a1 counts."""


def vcpu_with(
    arch: str, source: str, at: int = 0, native_clock: bool | None = None
) -> tuple[Vcpu, int, Memory]:
    """Return a vCPU at code `at` bytes into its pages; a0 points to pages not yet accessed."""
    facts = arches.load(arch).facts
    memory = Memory(facts.byteorder, facts.pointer_size)
    vcpu = Vcpu(0, 1, facts, memory, native_clock=native_clock)
    base = facts.map.tracer
    memory.map(base, 4 * PAGE_SIZE, "code")
    memory.map(facts.map.direct_map, 16 * PAGE_SIZE, "data")
    source = f".set noreorder\n.set noat\n{source}\nhere: b here\nnop"
    memory.write(base + at, assemble(facts, source, base + at, lambda name: None).code)
    vcpu.registers.write({"pc": base + at, "a0": facts.map.direct_map})
    return vcpu, base + at, memory  # keep the memory alive


@pytest.mark.parametrize("native", [None, False])
@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_load_in_a_delay_slot_may_touch_a_new_page(arch: str, native: bool | None) -> None:
    """The first instruction at the target runs once, even if it is a branch."""
    vcpu, _, _memory = vcpu_with(arch, ROUNDS, native_clock=native)
    assert vcpu.run(1000) == Stop(Why.DEADLINE)
    assert vcpu.registers.read()["a1"] == 8


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_run_is_the_same_while_its_reads_are_recorded(arch: str) -> None:
    plain, _, _memory = vcpu_with(arch, ROUNDS)
    vcpu, start, _other = vcpu_with(arch, ROUNDS)
    reads: deque[Read] = deque()
    with vcpu.recording(reads, 0):
        for deadline in (20, 40, 60, 80, 1000):
            assert plain.run(deadline) == vcpu.run(deadline) == Stop(Why.DEADLINE)
            assert (vcpu.ticks, vcpu.registers.read()) == (plain.ticks, plain.registers.read())
    first = vcpu.facts.map.direct_map
    assert [each.address for each in reads] == [first + row * PAGE_SIZE for row in range(8)]
    assert {each.pc for each in reads} <= {start + 4, start + 8}


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_run_never_stops_between_a_branch_and_its_slot(arch: str) -> None:
    """A block ends at the end of a page, and a branch may be its last instruction."""
    vcpu, branch, _memory = vcpu_with(
        arch,
        """
        b over
        addiu $a1, $a1, 1
        addiu $a1, $a1, 0x100
over:   addiu $a1, $a1, 2""",
        PAGE_SIZE - 4,
    )
    assert vcpu.run(1) == Stop(Why.DEADLINE)
    registers = vcpu.registers.read()
    assert (registers["pc"], registers["a1"]) == (branch + 12, 1)
    assert vcpu.ticks == 8
    assert vcpu.run(100) == Stop(Why.DEADLINE)
    assert vcpu.registers.read()["a1"] == 3


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_after_a_fault_in_a_slot_other_code_can_run(arch: str) -> None:
    vcpu, start, _memory = vcpu_with(
        arch,
        """
        b over
        lw $a1, 0($zero)
over:   addiu $a1, $a1, 1
        nop
        addiu $a1, $zero, 5
        nop""",
    )
    stop = vcpu.run(100)
    assert stop.why is Why.FAULT and stop.fault is not None
    assert stop.fault.address == 0
    vcpu.registers.write({"pc": start + 16})
    assert vcpu.run(100) == Stop(Why.DEADLINE)
    assert vcpu.registers.read()["a1"] == 5


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_step_includes_the_delay_slot(arch: str) -> None:
    vcpu, start, _memory = vcpu_with(arch, "b over\nlw $a1, 0($a0)\nnop\nover: b over\nnop")
    vcpu.step(2)
    assert vcpu.registers.pc == start + 12
    vcpu.step(2)
    assert vcpu.registers.pc == start + 12
