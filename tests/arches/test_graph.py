"""The function graph on a port of each family: calls and returns match, whatever the guest does."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import numpy as np
import pytest

from dynftrace.core.abi import FTRACE_RETFUNC_DEPTH, RequestKind, TraceType, Vector
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.trace.buffer.events import EventTable

from ..support import equilibrium
from ..support.ports import FAMILIES
from ..support.user import User

FN, ENTRY, RETURN = TraceType.FN, TraceType.GRAPH_ENT, TraceType.GRAPH_RET
CHOSEN = ("*open*", "path_*", "sys_close", "sys_fork", "kernel_clone", "do_exit")
"""Functions whose number of calls does not depend on scheduling, unlike reads of a pipe."""

_BEFORE = -1


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch, cpus=1)


def crashy(user: User, *calls: str) -> None:
    """Load the module and call its functions, so that their sites are known."""
    user("insmod crashy")
    for call in calls:
        user(f"call {call}")
    equilibrium.reach(user.session)


def table(user: User) -> EventTable:
    """Return the events in the buffers; none may be lost."""
    ring = user.session.boot.ring
    events = ring.events()
    assert not events.damaged and not ring.lost(len(events))
    return events


def ips(events: EventTable, kind: int, cpu: int) -> list[int]:
    """Return the functions of one CPU's events of one kind, in order."""
    rows = (events.events["type"] == kind) & (events.events["cpu"] == cpu)
    return events.addresses[events.events["ip"][rows]].tolist()  # type: ignore[no-any-return]


def open_functions(events: EventTable) -> dict[int, list[int]]:
    """Return the open calls by PID; check that each return matches the innermost call."""
    open_: dict[int, list[int]] = {}
    for event in events.events:
        ip, pid, returned = int(event["ip"]), int(event["pid"]), event["type"] == RETURN
        if event["type"] not in (ENTRY, RETURN):
            continue
        row = int(event["parent"])
        depth = int(events.details.returns["depth"][row]) if returned else row
        # Calls from before the buffer was cleared are unknown.
        stack = open_.setdefault(pid, [_BEFORE] * (depth + returned))
        if returned:
            assert stack.pop() in (ip, _BEFORE)
        assert depth == len(stack)
        if not returned:
            stack.append(ip)
    return open_


def names(user: User, events: EventTable, rows: np.ndarray) -> list[str]:
    """Return the functions of these rows."""
    found = user.session.boot.kallsyms.names_of(events.addresses[events.events["ip"][rows]])
    return [name.removeprefix(user.prefix) for name in found]


def test_calls_and_returns_of_every_task_balance(user: User) -> None:
    before = user.text()
    quiet = user("run syscalls")
    user("echo function_graph > current_tracer")
    assert user("run syscalls") == quiet
    events = table(user)
    assert (events.events["type"] == RETURN).sum() > 500
    open_ = open_functions(events)
    ended = {row for stack in open_.values() for row in stack}
    inside = set(user.session.boot.kallsyms.names_of(events.addresses[list(ended)]))
    assert {name.removeprefix(user.prefix) for name in inside} >= {"do_exit", "schedule"}
    returns = events.details.returns
    assert (returns["rettime"] >= returns["calltime"]).all() and not returns["overrun"].any()
    user("echo nop > current_tracer")
    assert user("run syscalls") == quiet
    user.same_text(before)
    assert not user.session.boot.machine.oopses


def test_entries_agree_with_the_function_tracer_in_the_same_run(user: User) -> None:
    """Both tracers are on: each call is recorded by one and then by the other."""
    user("echo function_graph > current_tracer")
    address = user.session.boot.kallsyms.address("function_trace_call")
    assert address is not None
    user.session.boot.ftrace.register(FtraceOps("second", address))
    user("echo > trace; run syscalls")
    events = table(user)
    # Between the two an interrupt with its own calls, or another task, may run.
    between: dict[int, list[int]] = defaultdict(list)
    for event in events.events:
        if event["type"] == FN:
            between[int(event["pid"])].append(int(event["ip"]))
        elif event["type"] == ENTRY and between[int(event["pid"])]:
            assert between[int(event["pid"])].pop() == event["ip"]
    assert sum(map(len, between.values())) <= len(between)
    assert (events.events["type"] == ENTRY).sum() > 500


def test_an_equal_run_under_the_function_tracer_has_the_same_calls(arch: str) -> None:
    seen = []
    for tracer, kind in (("function", FN), ("function_graph", ENTRY)):
        user = User(arch, cpus=1)
        chosen = " ".join(user.prefix + glob for glob in CHOSEN)
        user(f"echo {chosen} > set_ftrace_filter; echo {tracer} > current_tracer; run syscalls")
        events = table(user)
        of_kind = events.events["type"] == kind
        # Tasks switch at other times, because the tracers take different times.
        pids = np.unique(events.events["pid"][of_kind]).tolist()
        seen.append(
            {pid: names(user, events, of_kind & (events.events["pid"] == pid)) for pid in pids}
        )
    assert seen[0] == seen[1]
    assert sum(map(len, seen[0].values())) > 100


def test_switching_on_and_off_at_any_moment_loses_nothing(arch: str) -> None:
    user, dice = User(arch), random.Random(1)
    user.insmod("usbcore")
    workloads = ("irqstorm", "forkbomb", "usb", "syscalls")
    user("; ".join(f"run {workload}" for workload in workloads))
    equilibrium.reach(user.session)
    before, machine = user.text(), user.session.boot.machine
    request = user.session.boot.kallsyms.address("host_request")
    assert request is not None
    for workload in workloads:
        sequence = machine.requests.fill(request, RequestKind.WORKLOAD, name=workload)
        machine.vcpus[0].interrupts.send(Vector.REQUEST, machine.now)
        while not machine.requests.finished(sequence) and not machine.oopses:
            tracer = dice.choice(("function_graph", "function_graph", "function", "nop"))
            user(f"echo {tracer} > current_tracer")
            machine.run(dice.randrange(1, 2_000_000))
        assert machine.requests.result(sequence) >= 0
    user("echo function_graph > current_tracer; run syscalls; echo nop > current_tracer")
    assert not machine.oopses
    user.same_text(before)


def test_calls_that_are_too_deep_are_counted_but_not_traced(user: User) -> None:
    crashy(user, "crashy_recurse 1")
    user(f"echo {user.prefix}crashy_recurse > set_ftrace_filter")
    user("echo function_graph > current_tracer; echo 1 > options/funcgraph-overrun")
    deep = FTRACE_RETFUNC_DEPTH + 9
    assert f"({deep})" in user(f"call crashy_recurse {deep}")
    events = table(user)
    assert len(ips(events, ENTRY, 0)) == len(ips(events, RETURN, 0)) == FTRACE_RETFUNC_DEPTH
    assert not open_functions(events)[max(events.events["pid"].tolist())]
    assert user.events()[-1].endswith("} (Overruns: 10)")
    assert not user.session.boot.machine.oopses


def test_results_in_two_registers_are_preserved(user: User) -> None:
    crashy(user, "crashy_wide")
    user(f"echo {user.prefix}crashy_multiply > set_ftrace_filter")
    user("echo function_graph > current_tracer")
    assert user("call crashy_wide") == "crashy_wide = 0x1 (1)\n"
    (line,) = user.events()
    assert "crashy_multiply();" in line


def test_a_slow_function_has_its_duration_and_return(user: User) -> None:
    user("echo msleep > set_ftrace_filter; echo 2000 > tracing_thresh")
    user("echo function_graph > current_tracer; call msleep 3; call msleep 0")
    assert len(user.events()) == 1
    assert re.fullmatch(r" 0\) # \d{4}\.\d{3} us \|  } /\* \.?msleep \*/", user.events()[0])


def test_max_graph_depth_limits_the_depth(user: User) -> None:
    user("echo 2 > max_graph_depth; echo function_graph > current_tracer; run syscalls")
    events = table(user)
    depths = events.events["parent"][events.events["type"] == ENTRY]
    assert set(depths.tolist()) == {0, 1}
    open_functions(events)


def test_set_graph_function_and_set_graph_notrace_choose_call_trees(user: User) -> None:
    user("echo vfs_read > set_graph_function; echo function_graph > current_tracer")
    user("run syscalls")
    events = table(user)
    tops = (events.events["type"] == ENTRY) & (events.events["parent"] == 0)
    assert set(names(user, events, tops)) == {"vfs_read"}
    below = (events.events["type"] == ENTRY) & (events.events["parent"] == 1)
    inside = set(names(user, events, below))
    assert inside
    open_functions(events)
    left_out = sorted(inside)[0]
    user(f"echo {user.prefix}{left_out} > set_graph_notrace; echo > trace; run syscalls")
    events = table(user)
    told = set(names(user, events, events.events["type"] == ENTRY))
    assert "vfs_read" in told and left_out not in told
    open_functions(events)


def test_a_failing_call_shows_its_error(user: User) -> None:
    user("echo 1 > options/funcgraph-retval; echo msleep > set_ftrace_filter")
    user("echo sys_close do_sys_openat2 > set_ftrace_filter")
    user("echo function_graph > current_tracer")
    user.session.call(f"{user.prefix}sys_close", [77])
    assert user.events()[-1].endswith(f"{user.prefix}sys_close(); /* -9 */")


def test_interrupts_are_between_arrows(user: User) -> None:
    user("echo function_graph > current_tracer; call msleep 5")
    lines = user.events()
    into = [n for n, line in enumerate(lines) if line == " 0)   ==========> |"]
    assert into and all(f"{user.prefix}do_IRQ() {{" in lines[n + 1] for n in into)
    out = [n for n, line in enumerate(lines) if line == " 0)   <========== |"]
    assert abs(len(out) - len(into)) <= 1
    assert all(lines[n - 1].endswith("}") for n in out)
    user("echo 0 > options/funcgraph-irqs; echo > trace; call msleep 5")
    assert not [line for line in user.events() if "do_IRQ" in line or "==" in line]


def test_no_interrupt_comes_between_a_call_and_its_event() -> None:
    """At the end of a page the event is written later than usual: once in some 150 calls."""
    user = User("x86_64", cpus=2)
    user("echo 8000 > buffer_size_kb; echo function_graph > current_tracer; run syscalls 6")
    depths: dict[int, int] = defaultdict(int)
    for event in table(user).events:
        if event["type"] == ENTRY:
            # The event of a call has the depth in the place of the caller.
            assert event["pid"] == 0 or event["parent"] <= depths[event["pid"]]
            depths[event["pid"]] = event["parent"] + 1


def test_a_corrupted_return_stack_is_reported_and_stops_the_cpu(user: User) -> None:
    crashy(user, "crashy_frame 0")
    user("echo function_graph > current_tracer")
    assert "Kernel panic" in user.refused("call crashy_frame 1")
    report = user("dmesg")
    found = re.search(r"Bad frame pointer: expected (\w+), received (\w+)", report)
    assert found is not None and found[1] != found[2]
    assert abs(int(found[1], 16) - int(found[2], 16)) in (4, 8, 16, 32)
    assert re.search(
        rf"  from func {re.escape(user.prefix)}crashy_frame \[crashy\] return to \w+", report
    )


def test_the_stop_flag_stops_all_tracing(user: User) -> None:
    quiet = user("run syscalls")
    for tracer in ("function", "function_graph"):
        user(f"echo {tracer} > current_tracer; poke function_trace_stop 01")
        user("sleep 0.001; echo > trace")  # a CPU may have read the flag before, in a call
        assert user("run syscalls") == quiet
        assert not [
            event
            for event in user.session.boot.ring.events().events
            if event["type"] in (FN, ENTRY)
        ]
        user("poke function_trace_stop 00")
        assert user("run syscalls") == quiet
        assert len(user.session.boot.ring.events()) > 100


def test_the_call_path_includes_the_graph_tracer(user: User) -> None:
    row = user.row("schedule")
    names = [
        hop.name for hop in user.session.call_path(user.session.boot.ftrace.records.ip_of(row))
    ]
    assert not any("graph" in name for name in names)
    user("echo function_graph > current_tracer")
    hops = user.session.call_path(user.session.boot.ftrace.records.ip_of(row))
    assert all(hop.verified for hop in hops)
    stub, slot, caller, handler = hops[-4:]
    assert stub.name == user.prefix + "ftrace_graph_stub"
    assert [slot.name, caller.name, handler.name] == [
        *("ftrace_graph_call", "ftrace_graph_caller", "return_to_handler")
    ]
    assert slot.target == caller.address
    assert handler.insns[-1][0].returns or handler.insns[-2][0].returns  # a delay slot
    user(f"poke {caller.address:#x} 00000000")
    wrong = [
        hop.name
        for hop in user.session.call_path(user.session.boot.ftrace.records.ip_of(row))
        if not hop.verified
    ]
    assert wrong == ["ftrace_graph_caller"]


@pytest.mark.parametrize(("arch", "named"), [("arm64", r" (\w+)\+"), ("ppc64", r"\(\.(\w+)\+")])
def test_an_oops_names_the_real_callers(user: User, named: str) -> None:
    """arm64 prints them instead of return_to_handler, PowerPC in parentheses after it."""
    user("echo function_graph > current_tracer; poke run_local_timers+0x10 0x00000000")
    user.refused("run syscalls")
    report = user("dmesg")
    trace = report[re.search("call trace:", report, re.IGNORECASE).end() :]  # type: ignore[union-attr]
    chain = (
        "tick_periodic",
        "tick_handle_periodic",
        "timer_interrupt",
        "__handle_irq_event_percpu",
    )
    assert "\n".join(chain) in "\n".join(re.findall(named, trace))
