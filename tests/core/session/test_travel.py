"""`goto`: the machine at an instant of its past is the machine that was there."""

from __future__ import annotations

import hashlib
import random
import re
from threading import Timer

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.ftrace.phases import Act
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.outcome import WentTo
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.text.tracetext import TraceText

from ...support.digest import of_memory
from ...support.ports import FAMILIES
from ...support.user import at_once, executor, opened


def state(session: Session) -> str:
    """Return a digest of memory, registers, CPU-local pages, trace, ftrace's state and time."""
    machine = session.boot.machine
    digest = hashlib.sha256(of_memory(machine.memory).encode())
    for vcpu in machine.vcpus:
        digest.update(repr((vcpu.state, vcpu.ticks, vcpu.interrupts)).encode())
        digest.update(repr(vcpu.registers.read()).encode() + vcpu.local.tobytes())
    shell = Shell(session)
    for file in ("trace", "enabled_functions", "set_ftrace_filter", "per_cpu/cpu0/stats"):
        digest.update(shell.execute(f"cat {file}").output.encode())
    return f"{session.now} {digest.hexdigest()}"


def of_cpu(text: TraceText, cpu: int) -> list[object]:
    """Return time, task and type of the events of `cpu`."""
    events = text.table.events
    found: list[object] = events[events["cpu"] == cpu][["ts", "pid", "type"]].tolist()
    return found


def rows(session: Session) -> list[str]:
    return Shell(session).execute("cat trace").output.partition("||||")[2].splitlines()


@pytest.mark.parametrize("arch", [*FAMILIES, "x86_64-2008"])
def test_goto_arrives_in_the_state_in_which_the_run_was(arch: str) -> None:
    """`until` stops the run itself at some calls; later, `goto` finds each of them again."""
    session = opened(arch)
    execute = executor(session)
    execute("echo vfs_read > set_ftrace_filter; echo function > current_tracer")
    states: list[tuple[int, str]] = []
    for _ in range(4):
        execute("until vfs_read syscalls")
        states.append((session.boot.stepper.last or 0, state(session)))
    execute("sleep 0.02")
    end, cpus = state(session), session.boot.array.text().table.events["cpu"]
    for number in range(4) if arch in FAMILIES else (2,):
        # The trace is in the order of time, the run is slices of one CPU after the other.
        cpu, then = states[number]
        nth = [each for each, _ in states[: number + 1]].count(cpu) - 1
        event = int(np.flatnonzero(cpus == cpu)[nth]) + 1
        assert f"event {event} of" in execute(f"goto {event}")
        assert state(session) == then
        execute("step 3")
        execute("goto -")
        assert state(session) == end


@pytest.mark.parametrize("tracer", ["function", "function_graph"])
def test_any_event_is_found_and_what_follows_is_the_same(tracer: str) -> None:
    session = Session.open(arches.load("x86_64"))
    execute = executor(session)
    execute(f"echo '*' > set_ftrace_filter; echo {tracer} > current_tracer; run syscalls")
    text, end, now = session.boot.array.text(), state(session), session.now
    events = text.table.events
    # The first events are written while sites are still being enabled.
    for row in (0, 5, *random.Random(4).sample(range(len(text)), 6)):
        execute(f"goto {row + 1}")
        number = int(text.rows.of(np.array([row]))[0][0])
        cpu = int(events["cpu"][number])
        assert session.boot.stepper.last == cpu
        # All events before it on its CPU are written, and no others.
        before = events[:number][events["cpu"][:number] == cpu]
        present = of_cpu(session.boot.array.text(), cpu)
        assert present == before[["ts", "pid", "type"]].tolist()
        # Not beyond the end of the first command: the next one is not given here.
        session.run(200_000 if row > 5 else 20_000)
        for each in (0, 1):
            after = of_cpu(session.boot.array.text(), each)
            common = slice(min(len(after), text.table.events["cpu"].tolist().count(each)))
            assert after[common] == of_cpu(text, each)[common]
            assert len(after) == len(after[common]) or session.now >= now
            assert each != cpu or len(after) > len(present)
        execute("goto -")
        assert state(session) == end


def test_goto_a_time_is_the_machine_at_that_time() -> None:
    session, other = Session.open(arches.load("mips")), Session.open(arches.load("mips"))
    execute = executor(session)
    execute("echo function > current_tracer")
    executor(other)("echo function > current_tracer; sleep 0.01")
    execute("sleep 0.03")
    execute("goto 0.0050001 1")
    assert session.boot.machine.vcpus[1].ticks >= 5_000_100
    shell = Shell(session)
    session.run(other.now - session.now)
    assert rows(session) == rows(other)
    assert shell.execute("goto 0.0040001; goto 0.0030001").status == 0
    assert "beyond the run: it is 0.0030" in shell.execute("goto 0.0395").error
    assert shell.execute("goto -").status == 0


def test_goto_is_a_command_of_the_journal_and_can_be_undone() -> None:
    session = Session.open(arches.load("arm64"))
    execute = executor(session)
    execute("echo schedule > set_ftrace_filter; echo function > current_tracer\nrun syscalls 2")
    before = state(session)
    outcome = Shell(session).execute("goto 3\nstep 2")
    assert isinstance(outcome.effects[0], WentTo)
    after = state(session)
    assert session.journal.actions[-3:] == ("run syscalls 2", "goto 3", "step 2")
    assert execute("back 2") == "undone: step 2\nundone: goto 3\n"
    assert state(session) == before
    execute("redo 2")
    assert state(session) == after
    other = Session.open(arches.load("arm64"))
    for action in session.journal.actions:
        Shell(other).repeat(str(action))
    assert state(other) == after


def test_goto_says_what_it_cannot_do() -> None:
    session = Session.open(arches.load("x86_64"), MachineSpec(cpus=2))
    shell = Shell(session)
    for text, error in (
        ("goto 1", "the trace holds no events: go to a time instead"),
        ("goto 0.5", "0.500000000 s is beyond the run: it is 0.00"),
        ("goto 0.000001", "0.000001000 s is before the session began: CPU 0 was at 0.00"),
        ("goto now", "'now' is neither an event nor a time such as 1.234567"),
        ("goto 0.1 2", "CPU 2 does not exist: valid CPUs are 0-1"),
        ("goto 1 1", "an event has its own CPU: leave out CPU"),
        ("goto -", "nothing to return from: goto has not been used"),
    ):
        assert error in shell.execute(text).error
    shell.execute("echo function > current_tracer; sleep 0.01")
    held = len(session.boot.array.text())
    error = f"the trace does not hold event {held + 1}: it holds 1 to {held}, the nearest is {held}"
    assert error in shell.execute(f"goto {held + 1}").error
    assert "the nearest is event" in shell.execute("goto 0.0050001").output
    shell.execute("goto -; reboot; sleep 0.01; goto 0.0000001")
    assert "is before the last reboot" in shell.execute("goto 0.0000001").error
    shell.execute("echo counter > trace_clock; echo function > current_tracer; sleep 0.001")
    assert "while the trace clock is 'counter'" in shell.execute("goto 1").error


def test_an_interrupted_goto_changes_nothing() -> None:
    session = Session.open(arches.load("x86_64"))
    shell = Shell(session)
    shell.execute("echo function > current_tracer; sleep 2")
    session.history.points.forget(lambda point: True)
    before = state(session)
    said: list[str] = []

    def show(text: str) -> None:
        said.append(text)
        session.stop()

    session.history.progress = show
    assert re.search(r"the way to 1\.9\d+ s was interrupted", shell.execute("goto 1.9").error)
    assert state(session) == before
    assert said[0].startswith("the way to 1.9") and said[-1] == ""


def test_an_interrupted_run_can_be_visited() -> None:
    session = Session.open(arches.load("x86_64"))
    shell = Shell(session)
    shell.execute("echo schedule > set_ftrace_filter; echo function > current_tracer")
    Timer(0.5, session.stop).start()
    assert "interrupted" in shell.execute("run syscalls 100000").error
    end = state(session)
    assert shell.execute("goto 20\nstep 2\ngoto 10").status == 0
    shell.execute("back 3")
    assert state(session) == end


@pytest.mark.parametrize(
    ("arch", "method", "tracer"),
    [
        ("x86_64", "stop_machine", "function"),
        ("x86_64", "breakpoint", "function_graph"),
        ("mips", "stop_machine", "function_graph"),
    ],
)
def test_an_instant_inside_a_patch_says_so_and_going_on_ends_it(
    arch: str, method: str, tracer: str
) -> None:
    session = Session.open(arches.load(arch))
    execute, patcher = executor(session), session.boot.ftrace.patcher
    # A CPU that stands at a place is kept there meanwhile.
    execute(f"patch {method}; until schedule syscalls; echo {tracer} > current_tracer")
    target = session.now + 1_000_000
    execute("sleep 0.001")
    end, timing, phases = state(session), patcher.last, patcher.performed
    assert timing is not None
    acts = {each.act for each in phases}
    assert acts >= {Act.PREPARE, Act.DISABLE_IRQ, Act.EXIT} or acts >= {Act.TRAP, Act.SYNC}
    events = session.boot.array.text().table.events["ts"]
    assert events[0] < timing.ended  # written while sites were being enabled
    half = timing.first + 1, (timing.first + timing.last) // 2, timing.last
    for where in (*(f"0.{ns:09d}" for ns in (timing.asked, *half)), "1", "3"):
        said = execute(f"goto {where} 0" if "." in where else f"goto {where}")
        patch = patcher.under_way
        assert patch is not None
        begun = patch.phases[patcher.phase].act
        assert f" here, in phase {patcher.phase + 1} of {len(patch.phases)}: {begun.value}" in said
        written = any(each.writes for each in patch.phases[: patch.done])
        assert ("about to change" in said) == (not written)
        session.run(target - session.now)
        assert patcher.patch is None and state(session) == end and patcher.performed == phases
        execute("goto -")
    execute(f"goto 0.{timing.asked:09d} 0; patch finish")
    assert patcher.patch is None and len(session.boot.tracefs.read("enabled_functions")) > 1000
    execute("sleep 0.001; goto -")
    assert state(session) == end
    assert "phase" not in execute(f"goto 0.{timing.ended + 10_000:09d}")


@pytest.mark.parametrize(("old", "new"), [("function", "nop"), ("nop", "irqsoff")])
def test_what_follows_the_change_in_a_switch_of_tracers_is_done(old: str, new: str) -> None:
    session = Session.open(arches.load("x86_64"))
    execute = executor(session)
    execute(f"echo {old} > current_tracer; sleep 0.001; echo {new} > current_tracer")
    target = session.now + 1_000_000
    execute("sleep 0.001")
    end, timing = state(session), session.boot.ftrace.patcher.last
    assert timing is not None
    # Nothing runs just before the change: it is not the sleep that these times are in.
    for ns in (timing.asked + 3000, timing.ended - 5000):
        assert " here, in phase " in execute(f"goto 0.{ns:09d} 0")
        session.run(target - session.now)
        assert state(session) == end
        execute("goto -")


def test_an_instant_inside_a_patch_of_the_host_says_so() -> None:
    session = Session.open(arches.load("x86_64"))
    execute = executor(session)
    at_once(session)
    session.history.start()
    execute("echo function > current_tracer; patch breakpoint; run syscalls")
    execute("echo schedule > set_ftrace_filter; sleep 0.001")
    end, syncs = state(session), session.boot.ftrace.patcher.performed
    trap, tail = next(
        (each.ns, after.ns)
        for each, after in zip(syncs, syncs[2:], strict=False)
        if each.act is Act.TRAP and after.ns > each.ns
    )
    said = [execute(f"goto 0.{(trap + tail) // 2:09d} {cpu}") + execute("goto -") for cpu in (0, 1)]
    assert any(
        "text is half written here; the last phase: every CPU drops" in each for each in said
    )
    assert state(session) == end
    assert "half written" not in execute(f"goto 0.{tail + 10_000:09d}")
