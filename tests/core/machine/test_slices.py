"""Slices that follow each other without a stop are those that a stop would have made."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from dynftrace.core.abi import TICK_NS
from dynftrace.core.machine.clock import Slices
from dynftrace.core.machine.memory import PAGE_SIZE
from dynftrace.core.machine.scheduler import SLICE_NS, Scheduler
from dynftrace.core.machine.vcpu import State, Stop, Vcpu

from ...support.keystone import needs_keystone
from .guest import FIELD, LOCAL, Guest
from .test_delayslots import vcpu_with

LOOP = "l: inc rbx; nop; nop; nop; nop; nop; nop; jmp l"
RUNS = (3_000, 7, 160_001, 60_001, 49_999, 400_000)
"""Virtual ns of each run; no interrupt falls due meanwhile."""

DISABLED = (4_730_000, 7, 9_500_001)
"""Virtual ns of runs in which ticks fall due while the guest has interrupts disabled."""


def _ends(native: bool, runs_ns: Sequence[int] = RUNS) -> tuple[list[tuple[int, ...]], int]:
    """Return where each of the runs ends, with the deadline the guest sees, and the engine's."""
    guest = Guest(native_clock=native)
    guest.boot(LOOP)
    ends = []
    runs = 0
    plain = Vcpu.run

    def counted(vcpu: Vcpu, deadline: int, *slices: Slices) -> Stop:
        nonlocal runs
        runs += 1
        return plain(vcpu, deadline, *slices)

    with patch.object(Vcpu, "run", counted):
        for ns in runs_ns:
            guest.machine.run(ns)
            (vcpu,) = guest.machine.vcpus
            ends.append((vcpu.ticks, int(vcpu.clock["deadline"]), guest.register("rbx")))
    return ends, runs


@pytest.mark.parametrize("native", [True, False])
def test_runs_end_where_single_slices_end(native: bool) -> None:
    with patch.object(Scheduler, "_slices", lambda *_: Slices()):
        ends, single = _ends(native)
    followed, few = _ends(native)
    assert followed == ends
    assert single > sum(RUNS) // SLICE_NS > few == len(RUNS)


@pytest.mark.parametrize("native", [True, False])
def test_slices_follow_while_interrupts_are_disabled(native: bool) -> None:
    with patch.object(Scheduler, "_slices", lambda *_: Slices()):
        ends, single = _ends(native, DISABLED)
    followed, few = _ends(native, DISABLED)
    assert followed == ends
    # `stop` must not wait for longer than a few ticks.
    assert single > sum(DISABLED) // SLICE_NS > sum(DISABLED) // (4 * TICK_NS) + 4 >= few > 3


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("arch", ["mips", "mips64"])
@needs_keystone
def test_no_slice_begins_in_a_delay_slot(arch: str, native: bool) -> None:
    """The branch is the last instruction of a page, so that a block of its own is the slot."""
    source = """
        addiu $a1, $a1, 1
        nop
next:   b next
        addiu $a1, $a1, 0x100
        """

    def ends(followed: bool) -> list[tuple[int, ...]]:
        found = []
        for length in range(8, 60, 4):
            vcpu, start, _memory = vcpu_with(arch, source, PAGE_SIZE - 12, native)
            vcpu.registers.write({"a1": 0})
            slices = Slices(2000, length, 1 << 60) if followed else Slices()
            while vcpu.ticks < 2000:
                vcpu.run(vcpu.ticks + length, slices)
            registers = vcpu.registers.read()
            found.append((vcpu.ticks, vcpu.deadline, registers["pc"] - start, registers["a1"]))
        return found

    assert ends(followed=True) == ends(followed=False)


def test_a_slice_that_follows_ends_at_a_call_of_the_guest() -> None:
    """The rest of its slice comes before anything else, as after any call."""
    call = f"mov rax, {LOCAL:#x}; mov dword ptr [rax + {FIELD['stop_request']}], 1; "
    source = f"mov ecx, 40000; l: inc rbx; nop; loop l; {call} jmp m; m: inc rbx; jmp m"

    def ends() -> list[tuple[int, int]]:
        guest = Guest()
        guest.boot(source)
        found = []
        for _ in range(8):
            guest.machine.run(61_003)
            found.append((guest.machine.now, guest.register("rbx")))
        return found

    with patch.object(Scheduler, "_slices", lambda *_: Slices()):
        single = ends()
    assert ends() == single


def test_a_host_call_ends_where_single_slices_end() -> None:
    """Other vCPUs have no turns meanwhile, so what they wait for ends no slice."""

    def calls() -> tuple[list[tuple[int, ...]], int]:
        guest, runs, plain = Guest(cpus=2), 0, Vcpu.run
        function = guest.put("f", 0x800, "xor eax, eax; l: inc rax; nop; nop; dec rdi; jnz l; ret")
        guest.boot("l: jmp l")
        for vcpu in guest.machine.vcpus:
            vcpu.state = State.RUNNING

        def counted(vcpu: Vcpu, deadline: int, *slices: Slices) -> Stop:
            nonlocal runs
            runs += 1
            return plain(vcpu, deadline, *slices)

        found = []
        with patch.object(Vcpu, "run", counted):
            for count in (10, 30_000, 7_001):
                result = guest.machine.requests.call(function, (count,))
                vcpu = guest.machine.vcpus[0]
                found.append((result, vcpu.ticks, int(vcpu.clock["deadline"])))
        return found, runs

    with patch.object(Scheduler, "_slices", lambda *_: Slices()):
        single, many = calls()
    followed, few = calls()
    assert followed == single
    assert [result for result, *_ in followed] == [10, 30_000, 7_001]
    assert many > 7 > few
