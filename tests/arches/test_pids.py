"""Tasks chosen by PID on a port of each family: both tracers record only their calls."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dynftrace.core.abi import FTRACE_RETFUNC_DEPTH, RequestKind, TraceType, Vector

from ..support.ports import FAMILIES
from ..support.user import User

TRACERS = ("function", "function_graph")
KINDS = (TraceType.FN, TraceType.GRAPH_ENT)


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch)


def pids(user: User) -> set[int]:
    """Return the PIDs of tasks that called a function; returns of earlier calls do not count."""
    events = user.session.boot.ring.events().events
    return set(events["pid"][np.isin(events["type"], KINDS)].tolist())


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("arch", FAMILIES)
def test_only_chosen_tasks_are_traced(arch: str, tracer: str) -> None:
    user = User(arch)
    before = user.text()
    user(f"echo {tracer} > current_tracer; run syscalls")
    all_of_them = pids(user)
    chosen = {pid for pid in all_of_them if pid in (0, 1)} | {max(all_of_them) + 1}
    assert 0 in chosen and len(all_of_them - chosen) > 1
    words = " ".join(map(str, chosen))
    user(f"echo {words} > set_ftrace_pid; run boot; echo > trace; run syscalls")
    assert pids(user) and pids(user) <= chosen
    user("echo 0 > set_ftrace_notrace_pid; run boot; echo > trace; run syscalls")
    assert 0 not in pids(user) and pids(user) <= chosen - {0}
    user(f"echo > set_ftrace_pid; echo {words} > set_ftrace_notrace_pid; run boot")
    user("echo > trace; run syscalls")
    assert pids(user) and not pids(user) & chosen
    user("echo > set_ftrace_notrace_pid; echo > trace; run syscalls")
    assert 0 in pids(user)
    user("echo nop > current_tracer")
    user.same_text(before)
    user.alive()


def test_the_call_path_includes_the_pid_check_only_with_pids(user: User) -> None:
    def arrows() -> set[str]:
        lines = user("cat enabled_functions").splitlines()
        return {line.rpartition("->")[2].partition("+")[0] for line in lines}

    user("echo function > current_tracer")
    direct = arrows()
    assert len(direct) == 1 and all(name.endswith("function_trace_call") for name in direct)
    user("echo 7 > set_ftrace_pid")
    assert all(name.endswith("ftrace_pid_func") for name in arrows())
    user("echo > set_ftrace_pid; echo 7 > set_ftrace_notrace_pid")
    assert all(name.endswith("ftrace_pid_func") for name in arrows())
    user("echo > set_ftrace_notrace_pid")
    assert arrows() == direct


def test_pids_may_change_at_any_moment(user: User) -> None:
    dice = random.Random(5)
    user("run syscalls")
    machine = user.session.boot.machine
    request = user.session.boot.kallsyms.address("host_request")
    assert request is not None
    sequence = machine.requests.fill(request, RequestKind.WORKLOAD, name="syscalls")
    machine.vcpus[0].interrupts.send(Vector.REQUEST, machine.now)
    while not machine.requests.finished(sequence) and not machine.oopses:
        tracer = dice.choice(("function", "function_graph", "nop"))
        chosen = " ".join(str(dice.randrange(12)) for _ in range(dice.choice((1, 3, 700))))
        path = dice.choice(("set_ftrace_pid", "set_ftrace_notrace_pid"))
        user(f"echo {tracer} > current_tracer; echo {chosen} > {path}")
        machine.run(dice.randrange(1, 600_000))
        if dice.randrange(2):
            user(f"echo {'' if dice.randrange(2) else '3 5'} > {path}")
            machine.run(dice.randrange(1, 600_000))
    assert machine.requests.result(sequence) >= 0
    user.alive()
    events = user.session.boot.ring.events()
    assert not events.damaged
    assert (events.details.returns["depth"] < FTRACE_RETFUNC_DEPTH).all()
