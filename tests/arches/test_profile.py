"""The function profiler on a port of each family, compared with the tracers and with itself."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.abi import FTRACE_RETFUNC_DEPTH, RequestKind, TraceType, Vector
from dynftrace.core.trace.buffer.events import EventTable

from ..support import equilibrium
from ..support.ports import FAMILIES
from ..support.user import User

FN, ENTRY, RETURN = TraceType.FN, TraceType.GRAPH_ENT, TraceType.GRAPH_RET

Row = tuple[int, int, int]
"""Hits, time and the sum of squared times, ns."""


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch, cpus=1)


def profile(user: User, cpu: int = 0) -> dict[str, Row]:
    """Return the counts of a CPU by the function's C name; names are unique."""
    rows = user.session.boot.array.profile.rows(cpu)
    names = [
        name.removeprefix(user.prefix) for name in user.session.boot.kallsyms.names_of(rows["ip"])
    ]
    assert len({*names}) == len(names)
    found = (tuple(row) for row in rows[["counter", "time", "time_squared"]].tolist())
    return dict(zip(names, found, strict=True))


def difference(after: Row, before: Row = (0, 0, 0)) -> Row:
    hits, time, squared = (a - b for a, b in zip(after, before, strict=True))
    return hits, time, squared


def whole(user: User) -> EventTable:
    """Return the events; none may be lost."""
    ring = user.session.boot.ring
    events = ring.events()
    assert not events.damaged and not ring.lost(len(events))
    return events


def calls(user: User, events: EventTable, cpu: int) -> dict[str, int]:
    """Return how often the function tracer saw each function on a CPU."""
    rows = (events.events["type"] == FN) & (events.events["cpu"] == cpu)
    ips, count = np.unique(events.addresses[events.events["ip"][rows]], return_counts=True)
    names = [name.removeprefix(user.prefix) for name in user.session.boot.kallsyms.names_of(ips)]
    return dict(zip(names, count.tolist(), strict=True))


def hits_on(user: User, cpu: int) -> Counter[str]:
    """Return how often the profiler has seen each function on a CPU."""
    return Counter({name: row[0] for name, row in profile(user, cpu).items()})


@pytest.mark.parametrize(("arch", "cpus"), [*((arch, 4) for arch in FAMILIES), (arches.DEFAULT, 1)])
def test_hits_agree_with_the_function_tracer(arch: str, cpus: int) -> None:
    user = User(arch, cpus=cpus)
    user("echo 4096 > buffer_size_kb; echo 1 > function_profile_enabled")
    user("echo function > current_tracer; echo > trace")
    # The profiler has counted what the guest called to let the text change for the tracer.
    before = [hits_on(user, cpu) for cpu in range(cpus)]
    user("run syscalls; run locks")
    events = whole(user)
    total: Counter[str] = Counter()
    recorded: Counter[str] = Counter()
    for cpu in range(cpus):
        hits = hits_on(user, cpu) - before[cpu]
        seen = Counter(calls(user, events, cpu))
        # A CPU may be between the two, in a task and in the interrupt that came there; or a task
        # was preempted there, and goes on on another CPU.
        assert (seen - hits).total() <= 2 and (hits - seen).total() <= 1
        total += hits
        recorded += seen
    assert not total - recorded
    assert abs(total.total() - int((events.events["type"] == FN).sum())) <= 2 * cpus
    assert total.total() > 2000 and "do_IRQ" in total
    assert sum(bool(profile(user, cpu)) for cpu in range(cpus)) == cpus


def test_times_of_leaf_functions_agree_with_the_graph_tracer(arch: str) -> None:
    """Compare two equal runs, apart from the time the tracers take.

    The functions are leaves that took the same time at each call of a run. The graph
    tracer's durations are all longer by the same amount.
    """
    user = User(arch, cpus=1)
    user("echo 1 > function_profile_enabled; run syscalls")
    profiled = profile(user)
    user = User(arch, cpus=1)
    user("echo function_graph > current_tracer; run syscalls")
    events = whole(user)
    rows = events.events[np.isin(events.events["type"], (ENTRY, RETURN))]
    ips = events.addresses[rows["ip"]]
    names = [name.removeprefix(user.prefix) for name in user.session.boot.kallsyms.names_of(ips)]
    leaf = (rows["type"][:-1] == ENTRY) & (rows["type"][1:] == RETURN) & (ips[:-1] == ips[1:])
    returns = events.details.returns
    durations: dict[str, Counter[int]] = defaultdict(Counter)
    for at in np.flatnonzero(leaf).tolist():
        told = returns[rows["parent"][at + 1]]
        durations[names[at]][int(told["rettime"] - told["calltime"])] += 1
    parents = {names[at] for at in np.flatnonzero(~leaf & (rows["type"][:-1] == ENTRY)).tolist()}
    # It branches on how long the task has run, and the tracers take different times.
    timed = {"check_preempt_tick"}
    longer = {}
    for name in (durations.keys() & profiled.keys()) - parents - timed:
        hits, time, squared = profiled[name]
        if hits > 1 and hits * squared == time * time:
            # Starting a new page of the buffer makes some calls longer.
            ((usual, _),) = durations[name].most_common(1)
            longer[name] = usual - time // hits
    assert len(longer) > 30
    assert len({*longer.values()}) == 1, longer


def microseconds(ns: int) -> str:
    """Format a time with at most seven digits, but with all digits before the point."""
    whole = str(ns // 1000)
    return whole if len(whole) >= 7 else f"{whole}.{ns % 1000:03}"[:8]


def test_lines_show_the_counts(user: User) -> None:
    user("echo 1 > function_profile_enabled; run syscalls; echo 0 > function_profile_enabled")
    rows, bits = profile(user), 8 * user.session.port.facts.pointer_size
    lines = user("cat trace_stat/function0").splitlines()[2:]
    assert len(lines) == len(rows) > 200
    times = [row[1] for row in rows.values()]
    assert times == sorted(times, reverse=True)
    for line, (name, (hits, time, squared)) in zip(lines, rows.items(), strict=True):
        divisor = hits * (hits - 1) * 1000 % 2**bits
        variance = (hits * squared - time**2) // divisor if divisor else 0
        words = line.split()
        assert words[0] == f"{user.prefix}{name}"[:30] and int(words[1]) == hits
        assert words[2:8:2] == [microseconds(ns) for ns in (time, time // hits, variance)]


def recursions(user: User, depth: int) -> Row:
    """Return what a call that recurses `depth` deep adds, if no interrupt came in between."""
    found = []
    for _ in range(5):
        before = profile(user).get("crashy_recurse", (0, 0, 0))
        user(f"call crashy_recurse {depth}")
        found.append(difference(profile(user)["crashy_recurse"], before))
    assert len({hits for hits, _, _ in found}) == 1
    return min(found)


def test_without_graph_time_the_time_of_callees_is_subtracted(user: User) -> None:
    """For a recursive function, the times without callees add up to the outermost call's time.

    The reference is an equal run with graph-time, in which each return is a little faster.
    """
    user("insmod crashy; call crashy_recurse 1")
    equilibrium.reach(user.session)
    user(f"echo {user.prefix}crashy_recurse > set_ftrace_filter")
    user("echo 1 > function_profile_enabled")
    nested = {depth: recursions(user, depth) for depth in (0, 1, 2, 6, 7)}
    user("echo 0 > options/graph-time")
    alone = {depth: recursions(user, depth) for depth in nested}
    assert [row[0] for row in nested.values()] == [depth + 1 for depth in nested]
    assert [row[0] for row in alone.values()] == [depth + 1 for depth in nested]
    assert alone[0] == nested[0]
    less = set()
    for depth in (1, 2, 7):
        outermost = nested[depth][1] - nested[depth - 1][1]
        taken, rest = divmod(alone[depth][1] - outermost, depth)
        assert not rest
        less.add(taken)
    assert len(less) == 1 and 0 < less.pop() < 500
    assert alone[7][1] * 2 < nested[7][1]


def test_without_sleep_and_graph_time_times_do_not_exceed_the_run(user: User) -> None:
    spent = {}
    for sleep, graph in ((1, 1), (1, 0), (0, 1), (0, 0)):
        user(f"echo {sleep} > options/sleep-time; echo {graph} > options/graph-time")
        user("echo 0 > function_profile_enabled; echo 1 > function_profile_enabled")
        began = user.session.now
        user("call msleep 3; run syscalls; call msleep 5")
        rows = profile(user)
        elapsed = user.session.now - began
        spent[sleep, graph] = sum(time for _, time, _ in rows.values()) / elapsed
        hits, time, squared = rows["msleep"]
        assert hits == 2
        if sleep and graph:
            assert 7_000_000 <= time < elapsed and squared * hits > time**2
        elif not sleep:
            assert time < 500_000
    assert 0.5 < spent[0, 0] < 1 < spent[1, 0] < spent[1, 1]
    assert spent[0, 0] < spent[0, 1] < spent[1, 1]


def test_sleep_time_applies_to_the_graph_tracer(user: User) -> None:
    user("echo msleep > set_ftrace_filter; echo function_graph > current_tracer")
    for name, least, most in ((1, 3_000_000, 6_000_000), (0, 1, 500_000)):
        user(f"echo {name} > options/sleep-time; echo > trace; call msleep 3")
        (told,) = whole(user).details.returns
        assert least <= told["rettime"] - told["calltime"] < most


def test_calls_that_are_too_deep_are_not_counted(user: User) -> None:
    user("insmod crashy; call crashy_recurse 1")
    equilibrium.reach(user.session)
    user(f"echo {user.prefix}crashy_recurse > set_ftrace_filter")
    user(f"echo 1 > function_profile_enabled; call crashy_recurse {FTRACE_RETFUNC_DEPTH + 9}")
    assert profile(user)["crashy_recurse"][0] == FTRACE_RETFUNC_DEPTH


def request(user: User, name: str, **what: object) -> int:
    """Make CPU 0 serve a request while the test runs the machine; return its number."""
    machine, at = user.session.boot.machine, user.session.boot.kallsyms.address("host_request")
    assert at is not None
    sequence = machine.requests.fill(at, RequestKind.WORKLOAD, name=name, **what)  # type: ignore[arg-type]
    machine.vcpus[0].interrupts.send(Vector.REQUEST, machine.now)
    return sequence


def test_only_calls_made_while_profiling_have_a_time(user: User) -> None:
    """One call was open when profiling was switched on, another when it went off and on."""
    machine = user.session.boot.machine
    user("run syscalls")
    sequence = request(user, "syscalls")
    while not machine.requests.finished(sequence):
        machine.run(200_000)
        user("echo 0 > function_profile_enabled; echo 1 > function_profile_enabled")
        began = user.session.now
        machine.run(200_000)
        for hits, time, squared in profile(user).values():
            # Each call and its return are within this time; functions rarely recurse.
            assert time <= hits * (user.session.now - began)
            assert squared <= time * time
    assert not machine.oopses


def test_changing_sleep_time_while_tasks_sleep_gives_no_negative_time(user: User) -> None:
    machine, dice = user.session.boot.machine, random.Random(3)
    user("run syscalls; echo 4096 > buffer_size_kb; echo function_graph > current_tracer")
    sequence = request(user, "syscalls")
    while not machine.requests.finished(sequence):
        user(f"echo {dice.randrange(2)} > options/sleep-time")
        machine.run(dice.randrange(20_000, 400_000))
    returns = whole(user).details.returns
    assert len(returns) > 500 and (returns["rettime"] >= returns["calltime"]).all()


def test_the_profiler_leaves_nothing_for_the_graph_tracer(user: User) -> None:
    """A gap of set_graph_notrace ends at a stack slot that a profiled function used before."""
    user("echo 1 > function_profile_enabled; run syscalls; run forkbomb; run syscalls")
    user(f"echo 0 > function_profile_enabled; echo {user.prefix}vfs_read > set_graph_notrace")
    user("echo function_graph > current_tracer; run syscalls")
    events = whole(user)
    names = user.session.boot.kallsyms.names_of(events.addresses[events.events["ip"]])
    assert f"{user.prefix}vfs_read" not in names
    kinds, pids = (events.events[field].tolist() for field in ("type", "pid"))
    told = list(zip(kinds, names, pids, strict=True))
    reads = {pid for kind, name, pid in told if (kind, name) == (RETURN, f"{user.prefix}sys_read")}
    assert reads
    for pid in reads:
        later = told[told.index((RETURN, f"{user.prefix}sys_read", pid)) :]
        assert [name for kind, name, of in later if (kind, of) == (ENTRY, pid)]


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_profiler_may_be_switched_at_any_moment(arch: str) -> None:
    user, dice = User(arch, cpus=2), random.Random(1)
    user.insmod("usbcore")
    workloads = ("irqstorm", "usb", "syscalls")
    user("; ".join(f"run {workload}" for workload in workloads))
    equilibrium.reach(user.session)
    before, machine = user.text(), user.session.boot.machine
    counted = 0
    for workload in workloads:
        sequence = request(user, workload)
        while not machine.requests.finished(sequence) and not machine.oopses:
            on, tracer = dice.random() < 0.7, dice.choice(("function_graph", "function", "nop"))
            user("echo nop > current_tracer; echo 0 > function_profile_enabled")
            for option in ("sleep-time", "graph-time"):
                user(f"echo {dice.randrange(2)} > options/{option}")
            if on:
                user("echo 1 > function_profile_enabled")
            if not on or tracer != "function_graph":
                user(f"echo {tracer} > current_tracer")
            began = max(vcpu.ticks for vcpu in machine.vcpus)
            machine.run(dice.randrange(1, 2_000_000))
            span = max(vcpu.ticks for vcpu in machine.vcpus) - began + 1_000_000
            for cpu in range(2):
                for hits, time, _ in profile(user, cpu).values() if on else ():
                    counted += hits
                    assert time <= hits * span * 2
        assert machine.requests.result(sequence) >= 0
    assert counted > 1000
    user("echo nop > current_tracer; echo 0 > function_profile_enabled; run syscalls")
    assert not machine.oopses
    user.same_text(before)


def test_tasks_that_were_not_chosen_are_not_counted(user: User) -> None:
    user("run syscalls; echo 0 > set_ftrace_pid; echo function > current_tracer")
    user("echo 1 > function_profile_enabled; run syscalls; echo 0 > function_profile_enabled")
    assert profile(user)["schedule_idle"][0] > 1
    assert "do_sys_openat2" not in profile(user)
    user(
        "echo > set_ftrace_pid; echo 0 > set_ftrace_notrace_pid; echo 1 > function_profile_enabled"
    )
    user("run syscalls")
    assert "schedule_idle" not in profile(user)
    assert profile(user)["do_sys_openat2"][0] > 1
