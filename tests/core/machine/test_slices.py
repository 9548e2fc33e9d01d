"""Slices that follow each other without a stop are those that a stop would have made."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from dynftrace.core.machine.clock import Slices
from dynftrace.core.machine.scheduler import SLICE_NS, Scheduler
from dynftrace.core.machine.vcpu import Stop, Vcpu

from .guest import FIELD, LOCAL, Guest

LOOP = "l: inc rbx; nop; nop; nop; nop; nop; nop; jmp l"
RUNS = (3_000, 7, 160_001, 60_001, 49_999, 400_000)
"""Virtual ns of each run; no interrupt falls due meanwhile."""


def _ends(native: bool) -> tuple[list[tuple[int, ...]], int]:
    """Return where each of `RUNS` ends, with the deadline the guest sees, and the engine's runs."""
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
        for ns in RUNS:
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
