"""Commands in set_ftrace_filter on a port of each family: their effect at each call, and counts.

Most tests use one CPU, so the order of events is the order of the trace.
"""

from __future__ import annotations

import random
import re

import pytest

from dynftrace.core.abi import RequestKind, TraceType, Vector
from dynftrace.core.shell.shell import Shell

from ..support.ports import FAMILIES
from ..support.user import User


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch, cpus=1)


def functions(user: User) -> list[str]:
    """Return the C names of the functions in the trace's lines."""
    whats = [line.split(": ", 1)[1] for line in user.events()]
    return [what.split(" ")[0].removeprefix(user.prefix) for what in whats]


def commands(user: User) -> list[str]:
    """Return the lines of commands, with the C names of their functions."""
    lines = user("cat set_ftrace_filter").splitlines()
    return [line.removeprefix(user.prefix) for line in lines if ":" in line]


def test_traceoff_ends_the_trace_at_the_first_call(user: User) -> None:
    before = user.text()
    user("echo sys_unlink:traceoff >> set_ftrace_filter; echo function > current_tracer")
    user("run syscalls")
    assert user("cat tracing_on") == "0\n"
    called = functions(user)
    # The probe was registered first, so it acts before the tracer does.
    assert len(called) > 20 and "sys_unlink" not in called
    assert commands(user) == ["sys_unlink:traceoff:unlimited"]
    user("echo '!sys_unlink:traceoff' >> set_ftrace_filter; echo 1 > tracing_on; run syscalls")
    assert "sys_unlink" in functions(user)
    user("echo nop > current_tracer")
    user.same_text(before)
    user.alive()


def test_a_tracer_registered_first_records_the_last_call(user: User) -> None:
    user("echo function > current_tracer; echo sys_unlink:traceoff >> set_ftrace_filter")
    user("echo > trace; run syscalls")
    assert functions(user)[-1] == "sys_unlink" and functions(user).count("sys_unlink") == 1


def test_traceon_and_traceoff_bracket_the_trace(user: User) -> None:
    before = user.text()
    user("echo function > current_tracer; echo 0 > tracing_on; echo > trace")
    user("echo sys_open:traceon sys_close:traceoff >> set_ftrace_filter; run syscalls")
    called = functions(user)
    assert user("cat tracing_on") == "0\n" and called[-1] == "sys_close"
    # The tracer runs before the probes: it sees the second call of each pair.
    ends = [n for n, name in enumerate(called) if name == "sys_close"]
    assert len(ends) > 5
    opened = {"do_sys_openat2", "do_IRQ"}
    assert {called[0], *(called[n + 1] for n in ends[:-1])} <= opened
    user("echo '!*:traceon' '!*:traceoff' >> set_ftrace_filter; echo nop > current_tracer")
    user.same_text(before)
    user.alive()


def test_only_changes_use_up_a_count(user: User) -> None:
    user("echo sys_open:traceoff:2 >> set_ftrace_filter; run syscalls; run syscalls")
    # Off at the first call; the calls after it change nothing.
    assert commands(user) == ["sys_open:traceoff:count=1"]
    user("echo 1 > tracing_on; run syscalls")
    assert commands(user) == ["sys_open:traceoff:count=0"]
    assert user("cat tracing_on") == "0\n"
    user("echo 1 > tracing_on; run syscalls")
    assert user("cat tracing_on") == "1\n"
    user("echo sys_open:traceon:3 >> set_ftrace_filter; run syscalls")
    assert "sys_open:traceon:count=3" in commands(user)


def test_a_dump_is_done_once_and_consumes_the_events(user: User) -> None:
    user("echo sys_pipe sys_open > set_ftrace_filter; echo sys_pipe:dump >> set_ftrace_filter")
    user("echo function > current_tracer; run syscalls")
    log = [line.partition("] ")[2] for line in user("dmesg").splitlines()]
    start = log.index("Dumping ftrace buffer:")
    assert log[start + 1] == log[-1] == "-" * 33
    inside = log[start + 2 : -1]
    shown = [
        re.fullmatch(r".{8}-\d+ +0.{5} {1,4}\d+us[ +!#*]: (\S+) <-\S+", line) for line in inside
    ]
    assert all(shown) and {line[1].removeprefix(user.prefix) for line in shown if line} >= {
        "sys_open"
    }
    assert user("cat tracing_on") == "0\n" and not user.events()
    assert commands(user) == ["sys_pipe:dump:count=0"]
    user("echo 1 > tracing_on; run syscalls")
    assert len(user("dmesg").splitlines()) == len(log) and user.events()
    user.alive()


def test_a_snapshot_splits_the_trace_at_the_call(
    user: User,
) -> None:
    user("echo sys_* > set_ftrace_filter; echo function > current_tracer")
    user("echo sys_pipe:snapshot:1 >> set_ftrace_filter; echo > trace; run syscalls")
    before, after = user("cat snapshot"), user("cat trace")
    assert f": {user.prefix}sys_pipe <-" in before.splitlines()[-1]
    assert before.count("sys_unlink <-") == 2 and before.count("sys_pipe <-") == 1
    assert after.count("sys_unlink <-") == after.count("sys_pipe <-") == 0
    assert "sys_read <-" in after.splitlines()[-1]
    assert commands(user) == ["sys_pipe:snapshot:count=0"]
    user.alive()


def test_without_a_spare_buffer_a_snapshot_stops_tracing(user: User) -> None:
    user("echo sys_pipe:snapshot >> set_ftrace_filter; echo 0 > snapshot; run syscalls")
    said = [line.split(": ", 1)[1] for line in user.events()]
    assert said == [
        f"{user.prefix}tracing_snapshot_instance: *** {text} ***"
        for text in ("SNAPSHOT NOT ALLOCATED", "stopping trace here!  ")
    ]
    assert user("cat tracing_on") == "0\n"
    user.alive()


def test_unloading_a_module_removes_its_commands(user: User) -> None:
    user.insmod("usbcore")
    before = user.text()
    user("echo usb_*:traceon:4 schedule:traceon:5 >> set_ftrace_filter")
    assert len(commands(user)) > 2
    user("rmmod usbcore")
    assert commands(user) == ["schedule:traceon:count=5"]
    user("echo '!schedule:traceon:0' >> set_ftrace_filter")
    user.insmod("usbcore")
    assert commands(user) == []
    user.same_text(before)
    user("echo usb_*:traceoff >> set_ftrace_filter; rmmod usbcore")
    assert commands(user) == [] and user("cat enabled_functions") == ""
    user("run syscalls")
    user.alive()


@pytest.mark.parametrize("arch", FAMILIES)
def test_counts_go_down_on_any_cpu(arch: str) -> None:
    user = User(arch)
    user("echo _raw_spin_lock > set_ftrace_filter; echo function > current_tracer")
    user("echo _raw_spin_lock:stacktrace:100000 _raw_spin_lock:stacktrace >> set_ftrace_filter")
    user("echo > trace")
    left = count_left(user)
    assert left <= 100_000  # the guest calls it while it lets the text change
    user("run syscalls")
    ring = user.session.boot.ring
    calls = ring.events().events
    calls = calls[calls["type"] == TraceType.FN]
    assert set(calls["cpu"].tolist()) == {0, 1} and len(calls) > 100
    # Each CPU may be between the event of a call and its count.
    assert 0 <= count_left(user) - (left - len(calls)) <= 2


def count_left(user: User) -> int:
    """Return what is left of the one count."""
    first, second = commands(user)
    assert first == "_raw_spin_lock:stacktrace:unlimited"
    found = re.fullmatch(r"_raw_spin_lock:stacktrace:count=(\d+)", second)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("arch", FAMILIES)
def test_commands_may_be_added_and_removed_at_any_moment(arch: str) -> None:
    user, dice = User(arch), random.Random(11)
    before, machine = user.text(), user.session.boot.machine
    request = user.session.boot.kallsyms.address("host_request")
    assert request is not None
    kinds = ("traceon", "traceoff", "snapshot", "dump", "cpudump", "traceoff:40", "snapshot:5")
    user("echo function > current_tracer")
    for workload in ("syscalls", "locks"):
        sequence = machine.requests.fill(request, RequestKind.WORKLOAD, name=workload)
        machine.vcpus[0].interrupts.send(Vector.REQUEST, machine.now)
        while not machine.requests.finished(sequence) and not machine.oopses:
            glob = dice.choice(("*lock*", "sys_*", "schedule", "*slab*", "vfs_*"))
            word = f"{glob}:{dice.choice(kinds)}"
            # The shell refuses to add a command twice, or to remove one that is not set.
            Shell(user.session).execute(
                f"echo '{dice.choice(('', '!'))}{word}' >> set_ftrace_filter"
            )
            user(f"echo {dice.randrange(2)} > tracing_on")
            machine.run(dice.randrange(1, 2_000_000))
        assert machine.requests.result(sequence) >= 0
    counted = [int(line.rpartition("=")[2]) for line in commands(user) if "count=" in line]
    assert all(0 <= count <= 40 for count in counted)
    events = user.session.boot.ring.events()
    assert not events.damaged
    for kind in kinds:
        Shell(user.session).execute(f"echo '!*:{kind}' >> set_ftrace_filter")
    assert commands(user) == []
    user("echo nop > current_tracer; run syscalls")
    user.same_text(before)
    user.alive()
