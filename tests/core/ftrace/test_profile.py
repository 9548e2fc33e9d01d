"""The profiler's tables in guest memory and the figures computed from them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dynftrace.core import abi
from dynftrace.core.errors import TracefsError
from dynftrace.core.ftrace.graph import GRAPH_STUB, FunctionGraph, GraphUser
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.ftrace.profile import CALL, CONTROL, REGION, ProfileTables, variance

from ...support.booted import Booted, boot

MS = 1_000_000


@pytest.fixture
def guest() -> Booted:
    return boot()


def used(guest: Booted) -> list[int]:
    """Return the number of functions in each table, as counted by the guest."""
    layout = abi.ftrace_profile_control("little")
    raw = guest.machine.memory.read(guest.address(CONTROL), layout.itemsize)
    return np.frombuffer(raw, layout)["used"][0].tolist()  # type: ignore[no-any-return]


def counting(guest: Booted) -> ProfileTables:
    """Count the hits of every function."""
    tables = ProfileTables(guest.machine, guest.ftrace)
    tables.reset()
    guest.ftrace.register(FtraceOps("profile", guest.address(CALL)))
    tables.count(True)
    return tables


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("times", [[5], [5, 5, 5], [1, 2, 3, 1000], [70_000, 3, 900_000], [0, 7]])
def test_the_variance_is_of_the_durations_of_calls(times: list[int], bits: int) -> None:
    n, mean = len(times), Fraction(sum(times), len(times))
    exact = sum((t - mean) ** 2 for t in times) / (n - 1) / 1000 if n > 1 else 0
    assert variance(n, sum(times), sum(t * t for t in times), bits) == int(exact)


def test_the_divisor_of_the_variance_is_a_long() -> None:
    hits = 70_000  # hits * (hits - 1) * 1000 is 4899930000000, beyond 32 bits
    assert variance(hits, 0, 1 << 40, 64) == (hits << 40) % 2**64 // 4_899_930_000_000
    assert variance(hits, 0, 1 << 40, 32) == (hits << 40) % 2**64 // (4_899_930_000_000 % 2**32)
    assert variance(1 << 16, 3, 9, 16) == 0  # nothing is left of it


def test_rows_are_sorted_by_the_key_and_then_by_address(guest: Booted) -> None:
    tables = counting(guest)
    guest.machine.run(20 * MS)
    for cpu in range(2):
        rows = tables.rows(cpu, "counter")
        keys = [(-int(row["counter"]), int(row["ip"])) for row in rows]
        assert keys == sorted(keys) and len(keys) == used(guest)[cpu] > 20
        assert len({-key[0] for key in keys}) < len(keys)
        assert not rows["time"].any()
        assert np.isin(rows["ip"], guest.ftrace.records.table["ip"]).all()


def test_a_full_table_still_counts_its_functions(guest: Booted) -> None:
    tables = counting(guest)
    limit = abi.ftrace_profile_control("little").fields
    assert limit is not None
    guest.machine.memory.write_int(guest.address(CONTROL) + int(limit["limit"][1]), 5, 4)
    guest.machine.run(10 * MS)
    before = tables.rows(0, "counter")
    guest.machine.run(10 * MS)
    after = tables.rows(0, "counter")
    assert len(before) == len(after) == used(guest)[0] == 5
    assert {*before["ip"].tolist()} == {*after["ip"].tolist()}
    assert after["counter"].sum() > before["counter"].sum()


def test_functions_with_the_same_hash_have_separate_slots(guest: Booted) -> None:
    """In the smallest table that fits, functions collide."""
    tables = ProfileTables(guest.machine, guest.ftrace)
    tables.reset()
    ops = FtraceOps("profile", guest.address(CALL))
    names = ("schedule", "do_IRQ", "irq_enter", "irq_exit", "run_timer_softirq", "scheduler_tick")
    ops.filter_hash = guest.filter(*names)
    guest.ftrace.register(ops)
    control = np.zeros((), abi.ftrace_profile_control("little"))
    address = guest.machine.memory.region(REGION).address
    control["on"], control["bits"], control["limit"], control["tables"] = 1, 3, 7, address
    guest.machine.memory.write(guest.address(CONTROL), control.tobytes())
    guest.machine.run(20 * MS)
    raw = guest.machine.memory.read(address, 8 * 32)
    rows = np.frombuffer(raw, abi.ftrace_profile("little"))
    assert sorted(rows["ip"][rows["ip"] != 0].tolist()) == sorted(map(guest.address, names))
    assert (rows["counter"] > 0).sum() == len(names)
    # Each tick of CPU 0 calls each once.
    hits = dict(zip(rows["ip"].tolist(), rows["counter"].tolist(), strict=True))
    assert abs(hits[guest.address("irq_enter")] - hits[guest.address("irq_exit")]) <= 1
    assert not tables.rows(1, "counter")["counter"].any()


def test_a_reset_empties_and_resizes_the_tables(guest: Booted) -> None:
    tables = counting(guest)
    guest.machine.run(5 * MS)
    size = guest.machine.memory.region(REGION).size
    assert len(tables.rows(0, "time"))
    tables.reset()
    assert not len(tables.rows(0, "time")) and used(guest) == [0] * abi.PROFILE_CPUS
    table = guest.ftrace.records.table
    more = table["ip"][-1] + np.arange(1, 2 * len(table), dtype=np.uint64)
    guest.ftrace.records.add(more, ["f"] * len(more), np.zeros((len(more), 5), np.uint8), "m")
    tables.reset()
    assert guest.machine.memory.region(REGION).size > size
    assert not guest.machine.memory.region(REGION).executable


def test_tables_without_room_are_enomem(guest: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ProfileTables(guest.machine, guest.ftrace)
    monkeypatch.setattr(tables, "_area", range(4096))
    with pytest.raises(TracefsError, match="Cannot allocate memory"):
        tables.reset()
    assert not len(tables.rows(0, "time"))


def test_a_clock_that_is_behind_gives_no_negative_time(guest: Booted) -> None:
    """Poke the time of a call, as if the task had moved to a CPU whose clock is behind.

    The poked call is the innermost one in progress.
    """
    graph = FunctionGraph(guest.machine, guest.ftrace, guest.address(GRAPH_STUB))
    tables = ProfileTables(guest.machine, guest.ftrace)
    tables.reset()
    graph.ops.filter_hash = guest.filter("arch_cpu_idle")
    graph.start(GraphUser.PROFILER)
    tables.count(True)
    machine, local = guest.machine, guest.machine.vcpus[0].local
    idle = machine.vcpus[0].idle_calls
    machine.run_until(lambda: machine.vcpus[0].idle_calls > idle, 10 * MS, "sleep")
    at = int(local["ret_stack"])
    machine.run_until(lambda: machine.memory.read_int(at, 4) == 1, 10 * MS, "a call")
    # u32 index …, u64 timestamp; then ret, func, fp, told and profiled, calltime
    calltime = at + 40 + 3 * 8 + 8
    called = machine.memory.read_int(calltime, 8)
    assert 0 < called <= machine.vcpus[0].ticks
    machine.memory.write_int(calltime, called + 100 * MS, 8)
    machine.run(2 * MS)
    (row,) = tables.rows(0, "time")
    assert row["counter"] > 1 and row["time"] < 5 * MS
