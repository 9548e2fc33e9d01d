"""Long runs of instructions without a branch, and engines that are replaced after exceptions.

The engine would kill the process, so each test runs its code in a child.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.arches.mips import insn
from dynftrace.core.crash import Access
from dynftrace.core.machine.memory import PAGE_SIZE, Memory
from dynftrace.core.machine.vcpu import Stop, Vcpu, Why

FAR = 10**9
LOOP = (insn.b(0), insn.NOP)
V0 = 2
COUNT = insn.addiu(V0, V0, 1)
PORTS = pytest.mark.parametrize("arch", ["mips", "mips64"])


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a child process, which must not die by a signal or an exception."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Cpu:
    """A vCPU over pages of code that it cannot write, and a page of data."""

    def __init__(self, arch: str, *, native: bool | None = None, writable: bool = False) -> None:
        facts = arches.load(arch).facts
        self.order = facts.byteorder
        self.memory = Memory(facts.byteorder, facts.pointer_size)
        self.vcpu = Vcpu(0, 1, facts, self.memory, native_clock=native)
        self.text, self.data = facts.map.tracer, facts.map.direct_map
        self.memory.map(self.text, 4 * PAGE_SIZE, "code", writable=writable)
        self.memory.map(self.data, PAGE_SIZE, "data", executable=False)

    def put(self, *words: int, at: int = 0) -> None:
        self.memory.write(self.text + at, insn.pack(self.order, *words))

    def run(self, at: int = 0, ns: int = FAR, to: int | None = None) -> Stop:
        """Run from `at` bytes into the code, until `to` bytes into it."""
        self.vcpu.registers.write({"pc": self.text + at, "v0": 0})
        self.vcpu.stop_at([] if to is None else [self.text + to])
        return self.vcpu.run(self.vcpu.ticks + ns)

    @property
    def counted(self) -> int:
        return self.vcpu.registers.read()["v0"]


@PORTS
@pytest.mark.parametrize("native", [None, False])
@pytest.mark.parametrize("writable", [False, True])
def test_a_function_of_two_thousand_instructions_runs(
    arch: str, native: bool | None, writable: bool
) -> None:
    def work() -> None:
        cpu = Cpu(arch, native=native, writable=writable)
        cpu.put(*[COUNT] * 2000, *LOOP)
        assert cpu.run(to=8000) == Stop(Why.REACHED)
        assert (cpu.counted, cpu.vcpu.ticks) == (2000, 8000)
        assert cpu.run(at=4 * 700, to=8000) == Stop(Why.REACHED)
        assert (cpu.counted, cpu.vcpu.ticks) == (1300, 8000 + 4 * 1300)

    in_child(work)


@PORTS
def test_the_longest_run_without_a_hook_runs(arch: str) -> None:
    limit = arches.load(arch).facts.engine.long_blocks
    assert limit is not None
    kinds = (
        COUNT,
        insn.NOP,
        insn.r_type(0x0A, 5, 6, V0),  # movz
        insn.r_type(0x12, 0, 0, 7),  # mflo
        insn.i_type(0x2A, 4, 5, 0),  # swl
    )

    def work() -> None:
        for kind in kinds:
            cpu = Cpu(arch)
            cpu.put(*LOOP, *[kind] * (limit.most - 2), *LOOP)
            cpu.vcpu.registers.write({"a0": cpu.data, "a2": 1})
            end = 8 + 4 * (limit.most - 2)
            assert cpu.run(at=8, to=end) == Stop(Why.REACHED)
            hooks = cpu.vcpu._long_blocks
            assert hooks is not None
            assert all(start > cpu.text + end for start, _ in hooks.spans)

    in_child(work)


def test_only_long_runs_are_hooked() -> None:
    cpu = Cpu("mips")
    limit = arches.load("mips").facts.engine.long_blocks
    assert limit is not None
    short, long = [insn.NOP] * (limit.most - 2), [insn.NOP] * limit.most
    pages = PAGE_SIZE // 4 * 4
    words = [*LOOP, *short, *LOOP, *long, *LOOP]
    cpu.put(*words, *LOOP * ((pages - len(words)) // 2))
    cpu.run(ns=8)
    hooks = cpu.vcpu._long_blocks
    assert hooks is not None
    start = cpu.text + 4 * (len(LOOP) + len(short) + len(LOOP))  # after the slot of a branch
    assert hooks.spans == ((start, start + 4 * limit.most + 3),)


@pytest.mark.parametrize("change", ["write", "scatter", "remap"])
def test_code_that_becomes_long_runs_too(change: str) -> None:
    def work() -> None:
        cpu = Cpu("mips64")
        cpu.put(*[COUNT, *LOOP] * 1000)
        assert cpu.run(ns=12) == Stop(Why.DEADLINE)
        text = insn.pack(cpu.order, *[COUNT] * 1500, *LOOP)
        if change == "remap":
            cpu.memory.unmap("code")
            cpu.memory.map(cpu.text, 8 * PAGE_SIZE, "longer code", writable=False)
        if change == "scatter":
            places = np.arange(len(text) // 4, dtype=np.uint64) * np.uint64(4)
            words = np.frombuffer(text, np.uint8).reshape(-1, 4)
            cpu.memory.scatter(places + np.uint64(cpu.text), words)
        else:
            cpu.memory.write(cpu.text, text)
        cpu.vcpu.flush()
        assert cpu.run(to=6000) == Stop(Why.REACHED)
        assert cpu.counted == 1500

    in_child(work)


def test_a_long_run_that_a_guest_writes_runs_too() -> None:
    def work() -> None:
        cpu = Cpu("mips", writable=True)
        cpu.put(*[COUNT, *LOOP] * 1000)
        assert cpu.run(ns=12) == Stop(Why.DEADLINE)
        store = (insn.addiu(5, 5, 4), insn.i_type(0x2B, 5, 6, 0))  # sw a2,0(a1)
        writer = 3 * PAGE_SIZE
        cpu.put(*store, insn.i_type(5, 5, 7, -3), insn.NOP, *LOOP, at=writer)  # bne a1,a3
        cpu.vcpu.registers.write({"a1": cpu.text - 4, "a2": COUNT, "a3": cpu.text + 4 * 2999})
        assert cpu.run(at=writer, ns=16 * 3000) == Stop(Why.DEADLINE)
        assert cpu.run(to=4 * 2900) == Stop(Why.REACHED)
        assert cpu.counted == 2900

    in_child(work)


@PORTS
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_a_vcpu_still_runs_after_a_fetch_that_failed(arch: str, odd: int) -> None:
    """The engine that failed would die in its next translation."""

    def work() -> None:
        cpu = Cpu(arch)
        cpu.put(COUNT, insn.jr(4), insn.NOP)
        cpu.put(COUNT, COUNT, *LOOP, at=0x100)
        cpu.vcpu.registers.write({"a0": cpu.data + odd, "s0": 7})
        stop = cpu.run()
        if odd:
            assert stop.why is Why.INTERRUPT
        else:
            assert stop.fault is not None
            assert (stop.fault.access, stop.fault.address) == (Access.FETCH, cpu.data)
        ticks = cpu.vcpu.ticks
        assert cpu.run(at=0x100, to=0x104) == Stop(Why.REACHED)
        assert (cpu.counted, cpu.vcpu.ticks - ticks) == (1, 4)
        assert cpu.vcpu.registers.read()["s0"] == 7

    in_child(work)
