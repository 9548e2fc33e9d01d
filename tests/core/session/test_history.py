"""`back` and `redo`: afterwards the machine is as it was, byte for byte."""

from __future__ import annotations

import hashlib
from threading import Timer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.digest import of_memory
from ...support.ports import FAMILIES
from ...support.user import executor

RUN = 250_000

COMMANDS = (
    "step 3",
    "next",
    "finish 1",
    "until vfs_write syscalls",
    "run syscalls",
    "echo schedule > set_ftrace_filter",
    "echo function > current_tracer",
    "echo nop > current_tracer",
    "echo function_graph > current_tracer",
    "insmod usbcore",
    "rmmod usbcore",
    "poke schedule 60000000",
    "cat trace_pipe",
    "sleep 0.001",
    "echo 0 > tracing_on",
    "call sys_getppid",
    "echo nonsense > current_tracer",
)


def machine() -> Session:
    return Session.open(arches.load("ppc64"), MachineSpec(cpus=2))


def state(session: Session) -> str:
    """Return a digest of memory, registers, the output of commands, and the time."""
    digest = hashlib.sha256(of_memory(session.boot.machine.memory).encode())
    shell = Shell(session)
    for command in ("regs", "dmesg", "cat trace", "cat set_ftrace_filter", "lsmod"):
        digest.update(shell.execute(command).output.encode())
    return f"{session.now} {digest.hexdigest()}"


def do(session: Session, actions: list[str | int]) -> None:
    shell = Shell(session)
    for action in actions:
        if isinstance(action, int):
            session.run(action)
        else:
            shell.execute(action)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(COMMANDS), st.just(RUN)), min_size=2, max_size=7),
    st.data(),
)
def test_back_undoes_the_last_actions(actions: list[str | int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(actions)))
    while cut < len(actions) and actions[cut - 1] == actions[cut] == RUN:
        cut += 1  # consecutive runs are one action
    done, undone = actions[:cut], actions[cut:]
    session, other = machine(), machine()
    do(session, done)
    before = state(session)
    do(session, undone)
    after = state(session)
    lines = sum(
        not (isinstance(each, int) and at and isinstance(undone[at - 1], int))
        for at, each in enumerate(undone)
    )
    if lines:
        assert Shell(session).execute(f"back {lines}").status == 0
    assert state(session) == before
    do(other, done)
    assert state(other) == before
    if lines:
        assert Shell(session).execute(f"redo {lines}").status == 0
        assert state(session) == after


def test_back_says_what_it_undid_and_where_it_ends() -> None:
    session = machine()
    shell = Shell(session)
    shell.execute("echo 'vfs_*' > set_ftrace_filter\nsite schedule; cat trace\nstep 2")
    session.run(1000)
    session.run(1000)
    assert shell.execute("back").output.splitlines() == ["undone: the machine ran on its own"]
    assert shell.execute("back").output == "undone: step 2\n"
    assert shell.execute("back").output == "undone: echo 'vfs_*' > set_ftrace_filter\n"
    refused = shell.execute("back")
    assert (refused.status, refused.error) == (1, "back: nothing to undo\n")
    assert "must be at least 1" in shell.execute("back 0").error


def test_a_line_is_undone_as_a_whole() -> None:
    session = machine()
    shell = Shell(session)
    before = state(session)
    shell.execute("step && sleep 0.001; site schedule; reboot; step 3\nstep")
    first = "step && sleep 0.001; site schedule; reboot; step 3"
    assert shell.execute("back 2").output == f"undone: step\nundone: {first}\n"
    assert state(session) == before
    assert shell.execute("redo").output == f"done again: {first}\n"
    assert shell.execute("step; back").output.endswith("undone: step\n")
    assert "cannot redo 2 lines: only 1 can be redone" in shell.execute("redo 2").error
    assert shell.execute("redo; sleep 0.001; redo").error == "redo: nothing to redo\n"
    shell.execute("back 2")
    assert "cannot undo 2 lines: only 1 can be undone" in shell.execute("back 2").error


def test_a_reboot_can_be_undone() -> None:
    session = machine()
    shell = Shell(session)
    start = state(session)
    shell.execute("step")
    before = state(session)
    shell.execute("reboot")
    assert state(session) == start and session.journal.actions == ()
    shell.execute("step 3")
    assert shell.execute("back 2").output == "undone: step 3\nundone: reboot\n"
    assert state(session) == before and session.journal.actions == ("step",)
    assert shell.execute("redo; redo; back 3").status == 0
    assert state(session) == start
    assert "nothing to undo" in shell.execute("back").error


def test_the_state_at_an_interruption_is_an_instant_like_any_other() -> None:
    session = machine()
    shell = Shell(session)
    shell.execute("step")
    Timer(0.05, session.stop).start()
    session.run(60_000_000_000)
    interrupted = state(session)
    assert session.journal.interrupted
    shell.execute("step 2")
    shell.execute("back")
    assert state(session) == interrupted and session.journal.interrupted
    shell.execute("back")
    assert session.journal.actions == ("step",) and not session.journal.interrupted
    shell.execute("redo")
    assert state(session) == interrupted and session.journal.interrupted


def test_running_in_the_background_is_one_entry() -> None:
    session = machine()
    before = state(session)
    for _ in range(3):
        session.run(1000)
    assert Shell(session).execute("back").output == "undone: the machine ran on its own\n"
    assert state(session) == before


def test_an_interrupted_way_back_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = machine()
    shell = Shell(session)
    session.run(1000)
    shell.execute("step")
    before = state(session)
    session.history.points.forget(lambda point: True)
    monkeypatch.setattr(Session, "run", lambda session, ns: session.history.interrupted())
    outcome = shell.execute("back")
    assert (outcome.status, outcome.error) == (1, "back: the way back was interrupted\n")
    assert state(session) == before


def test_with_little_memory_fewer_checkpoints_are_kept() -> None:
    session = machine()
    shell, points = Shell(session), session.history.points
    points.budget = points.size + (1 << 20)
    states = []
    for number in range(12):
        states.append(state(session))
        shell.execute(f"run syscalls; echo {number} > trace_marker")
        session.history._take()
    assert 2 < len(points) < 12 and points.size <= points.budget
    while states:
        shell.execute("back")
        assert state(session) == states.pop()


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_stale_cpu_stays_stale_on_the_way(arch: str) -> None:
    """With and without a way back after each command, CPU 1 runs the same old text."""
    commands = (
        "echo schedule vfs_open > set_ftrace_filter; echo function > current_tracer; run syscalls",
        "echo nop > current_tracer; run syscalls; icache skip 1",
        "echo function > current_tracer",
        "run syscalls",
        "icache flush 1; run syscalls",
    )
    straight, to_and_fro = Session.open(arches.load(arch)), Session.open(arches.load(arch))
    seen = []
    for command in commands:
        executor(straight)(command)
        executor(to_and_fro)(f"{command}\nback\nredo")
        assert state(to_and_fro) == state(straight)
        seen.append([straight.boot.ring.in_buffer(cpu) > 0 for cpu in (0, 1)])
    assert seen[-2:] == [[True, False], [True, True]]
