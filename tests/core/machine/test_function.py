"""Function pointers, with and without descriptors."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from dynftrace import arches
from dynftrace.core.arch import Function
from dynftrace.core.elf.symbols import Symbol
from dynftrace.core.errors import MemoryFault
from dynftrace.core.facts import Facts, Register, Toc
from dynftrace.core.machine.function import enter, function_at, kernel_toc, pointer_to
from dynftrace.core.machine.memory import Memory

PLAIN = arches.load("x86_64")
TOC = Toc(Register("r11", PLAIN.facts.abi.arguments[0].number), ".opd", ".toc", 0x8000, ".")
CODE, OPD, KERNEL_TOC = 0x10_0000, 0x20_0000, 0x7777_8000


def with_descriptors() -> Facts:
    """x86-64's facts with an ABI that has descriptors."""
    sites = dataclasses.replace(PLAIN.facts.sites, mcount_symbols=("._mcount",))
    abi = dataclasses.replace(PLAIN.facts.abi, toc=TOC)
    return dataclasses.replace(PLAIN.facts, abi=abi, sites=sites)


class Names:
    """`.work` with descriptor `work`, `._mcount` with its own, `entry` without one."""

    symbols = (
        Symbol(".work", CODE, 0x40),
        Symbol("._mcount", CODE + 0x40, 0x40),
        Symbol("entry", CODE + 0x80, 0x40),
        Symbol("work", OPD, 24, None, False),
        Symbol("_mcount", OPD + 24, 24, None, False),
    )

    def address(self, name: str, module: str | None = None) -> int | None:
        return next((s.address for s in self.symbols if s.name == name), None)

    def lookup(self, address: int) -> Symbol | None:
        covers = (s for s in self.symbols if s.address <= address < s.address + s.size)
        return next(covers, None)


@pytest.fixture
def memory() -> Memory:
    memory = Memory("little", 8)
    memory.map(OPD, 0x1000, "opd")
    memory.write(OPD, struct.pack("<6Q", CODE, 0x1111_8000, 0, CODE + 0x40, KERNEL_TOC, 0))
    return memory


def test_without_descriptors_a_pointer_points_to_code(memory: Memory) -> None:
    assert function_at(PLAIN.facts, memory, Names(), OPD) == Function(OPD)
    assert pointer_to(PLAIN.facts, Names(), CODE + 4) == CODE + 4
    assert kernel_toc(PLAIN.facts, memory, Names()) == 0


def test_a_descriptor_and_its_code_are_one_function(memory: Memory) -> None:
    facts = with_descriptors()
    wanted = Function(CODE, 0x1111_8000)
    assert function_at(facts, memory, Names(), OPD) == wanted
    assert function_at(facts, memory, Names(), CODE) == wanted
    assert pointer_to(facts, Names(), CODE) == OPD
    assert pointer_to(facts, Names(), OPD) == OPD


def test_code_without_a_descriptor_has_the_kernels_toc_and_no_pointer(memory: Memory) -> None:
    facts = with_descriptors()
    assert function_at(facts, memory, Names(), CODE + 0x80) == Function(CODE + 0x80, KERNEL_TOC)
    assert pointer_to(facts, Names(), CODE + 0x80) is None
    assert pointer_to(facts, Names(), CODE + 4) is None, (
        "an address inside a function is not a function"
    )


def test_an_unmapped_descriptor_is_a_memory_fault(memory: Memory) -> None:
    memory.unmap("opd")
    with pytest.raises(MemoryFault):
        function_at(with_descriptors(), memory, Names(), OPD)


def test_entering_a_function_sets_its_toc_pointer(memory: Memory) -> None:
    port = dataclasses.replace(PLAIN, facts=with_descriptors())
    effect = enter(port, memory, Names(), OPD, (5,), 0x9000, 0x8000)
    assert effect.registers["rip"] == CODE
    assert effect.registers["r11"] == 0x1111_8000
    assert effect.registers["rdi"] == 5
