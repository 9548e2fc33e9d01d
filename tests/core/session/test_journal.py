"""`back`: afterwards the machine is as it was, byte for byte."""

from __future__ import annotations

import hashlib
from threading import Timer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import UsageError
from dynftrace.core.session.journal import Journal
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

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
    "poke schedule nop",
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
    digest = hashlib.sha256()
    for region in session.boot.machine.memory.regions:
        digest.update(f"{region.name} {region.address:x}".encode() + region.bytes.tobytes())
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
    parts = sum(
        not (isinstance(each, int) and at and isinstance(undone[at - 1], int))
        for at, each in enumerate(undone)
    )
    if parts:
        assert Shell(session).execute(f"back {parts}").status == 0
    assert state(session) == before
    do(other, done)
    assert state(other) == before


def test_back_says_what_it_undid_and_where_it_ends() -> None:
    session = machine()
    shell = Shell(session)
    shell.execute("echo 'vfs_*' > set_ftrace_filter; site schedule; cat trace; step 2")
    session.run(1000)
    session.run(1000)
    assert shell.execute("back").output.splitlines() == ["undone: the machine ran on its own"]
    assert shell.execute("back").output == "undone: step 2\n"
    assert shell.execute("back").output == "undone: echo 'vfs_*' > set_ftrace_filter\n"
    refused = shell.execute("back")
    assert (refused.status, refused.error) == (1, "back: nothing to undo\n")
    assert "must be at least 1" in shell.execute("back 0").error


def test_a_reboot_can_be_undone() -> None:
    session = machine()
    shell = Shell(session)
    shell.execute("step")
    before = state(session)
    shell.execute("reboot; reboot; step 3")
    assert shell.execute("back 2").output == "undone: reboot\nundone: step 3\n"
    assert state(session) == before
    assert shell.execute("back").output == "undone: step\n"
    assert "nothing to undo" in shell.execute("back").error


def test_an_interrupted_action_cannot_be_replayed() -> None:
    session = machine()
    shell = Shell(session)
    shell.execute("step")
    Timer(0.05, session.stop).start()
    session.run(60_000_000_000)
    assert "interrupted" in shell.execute("back").error
    shell.execute("reboot; step")
    assert shell.execute("back").status == 0


def test_running_in_the_background_is_one_action() -> None:
    journal = Journal()
    for action in (1, 2, 3):
        journal.note(action)
    assert journal.before(1) == ([], [1, 2, 3])
    with pytest.raises(UsageError):
        journal.before(2)


def test_back_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    session = machine()
    shell = Shell(session)
    session.run(1000)
    shell.execute("step; step")
    monkeypatch.setattr(Session, "run", lambda session, ns: session.journal.cut())
    outcome = shell.execute("back")
    assert (outcome.status, outcome.error) == (1, "back: the way back was interrupted\n")
    assert "cannot be replayed" in shell.execute("back").error


def test_actions_before_the_first_interruption_are_complete() -> None:
    journal = Journal()
    for action in (1, 2):
        journal.note(action)
    assert journal.whole == journal.actions == (1, 2)
    journal.cut()
    journal.note(3)
    journal.note(4)
    journal.cut()
    journal.note(5)
    assert journal.interrupted and journal.whole == (1, 2)
    assert journal.actions == (1, 2, 3, 4, 5)
    journal.clear()
    assert not journal.interrupted and journal.whole == ()
