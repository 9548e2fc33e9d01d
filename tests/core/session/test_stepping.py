"""Stepping on every port: into the tracer, over calls, out of functions, without side effects."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import GuestError, GuestInterrupted, UsageError
from dynftrace.core.machine.vcpu import State
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.digest import of_memory
from ...support.keystone import needs_keystone
from ...support.ports import FAMILIES
from ...support.user import subject

FUNCTION = "vfs_write"
TRACED = f"echo {FUNCTION} > set_ftrace_filter; echo function > current_tracer"
LIMIT_NS = 1_000_000_000


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shell(arch: str) -> Shell:
    return traced(arch)


def traced(arch: str, native: bool | None = None) -> Shell:
    """Return a machine whose vfs_write is traced; equal machines are shared."""
    shell = Shell(subject(arch).session(MachineSpec(native_clock=native)))
    sh(shell, TRACED)
    return shell


def sh(shell: Shell, text: str) -> str:
    outcome = shell.execute(text)
    assert (outcome.error, outcome.status) == ("", 0), text
    return outcome.output


def digest(session: Session) -> str:
    """Return a digest of memory, registers and time."""
    seen = hashlib.sha256(of_memory(session.boot.machine.memory).encode())
    for vcpu in session.boot.machine.vcpus:
        seen.update(repr((vcpu.state, vcpu.ticks, vcpu.registers.read())).encode())
        seen.update(vcpu.local.tobytes())
    return seen.hexdigest()


def pc(session: Session, cpu: int) -> int:
    return session.boot.machine.vcpus[cpu].registers.pc


def where(session: Session, cpu: int) -> str:
    return session.boot.kallsyms.format(pc(session, cpu)).partition("+")[0]


def site(session: Session, name: str = FUNCTION) -> int:
    names = list(session.boot.ftrace.records.names)
    row = names.index(session.port.facts.abi.text_prefix + name)
    return int(session.boot.ftrace.records.table["ip"][row])


def finished(session: Session) -> str:
    session.boot.machine.requests.finish_started(LIMIT_NS)
    return digest(session)


def test_stepping_into_and_out_of_the_tracer_changes_nothing(shell: Shell) -> None:
    """After single steps the machine is the same as after a plain run."""
    session = shell.session
    stepper, prefix = session.boot.stepper, session.port.facts.abi.text_prefix
    cpu = stepper.until(FUNCTION, "syscalls")
    assert pc(session, cpu) == site(session)
    sp, back = session.boot.machine.vcpus[cpu].registers.sp, 0
    seen = []
    for _ in range(400):
        session.step(cpu)
        name = where(session, cpu)
        seen += [name] if name not in seen[-1:] else []
        if name == prefix + "function_trace_call":
            break
    assert "ftrace_caller" in seen and seen[-1] == prefix + "function_trace_call"
    assert stepper.steps > 3
    # Out of the tracer into its caller, and out of that to the code after the site.
    assert stepper.out(cpu) == cpu
    entry = session.boot.ftrace.entry
    assert entry.address <= pc(session, cpu) < entry.address + len(entry.code)
    assert stepper.out(cpu) == cpu
    assert where(session, cpu) == prefix + FUNCTION
    assert session.boot.machine.vcpus[cpu].registers.sp == sp
    back = pc(session, cpu)
    assert 0 < back - site(session) <= 20
    assert finished(session) == _plain_run(session.port.facts.name)


def test_next_steps_over_the_site(shell: Shell) -> None:
    session = shell.session
    stepper = session.boot.stepper
    for place in (FUNCTION, FUNCTION):
        cpu = stepper.until(place, "syscalls")
        sp = session.boot.machine.vcpus[cpu].registers.sp
        steps = stepper.steps
        for _ in range(6):
            cpu = stepper.over(cpu)
            if stepper.elapsed(cpu) > 100:
                break
        assert stepper.elapsed(cpu) > 100, "a step over the site must include the tracer"
        assert stepper.steps - steps < 6
        assert 0 < pc(session, cpu) - site(session) <= 20
        assert session.boot.machine.vcpus[cpu].registers.sp == sp
    assert finished(session) == _plain_run(session.port.facts.name)


def test_finish_stops_in_the_caller(shell: Shell) -> None:
    session = shell.session
    cpu = session.boot.stepper.until(FUNCTION, "syscalls")
    sp = session.boot.machine.vcpus[cpu].registers.sp
    cpu = session.boot.stepper.out(cpu)
    prefix, facts = session.port.facts.abi.text_prefix, session.port.facts
    assert where(session, cpu) in (prefix + "sys_write", prefix + "ksys_write")
    before = session.boot.machine.memory.read(
        pc(session, cpu) - facts.max_insn_size, facts.max_insn_size
    )
    assert session.port.is_return_address(before)
    assert session.boot.machine.vcpus[cpu].registers.sp >= sp
    assert finished(session) == _plain_run(session.port.facts.name)


def test_finish_stops_at_the_return_address(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first instruction of many functions: pc and sp are those after the return."""
    monkeypatch.setattr("dynftrace.core.session.stepping.LIMIT_NS", 20_000_000)
    session = shell.session
    size, machine = session.port.facts.pointer_size, session.boot.machine
    entry = session.boot.ftrace.entry
    code = range(entry.address, entry.address + len(entry.code))  # labels, not functions
    names = [each.name for each in session.boot.kallsyms.functions() if each.address not in code]
    seen = 0
    for name in names[::17]:
        address = session.code_address(name)
        with suppress(GuestError, UsageError):
            cpu = session.boot.stepper.until(f"0x{address:x}", "syscalls")
            registers = machine.vcpus[cpu].registers
            sp, back = registers.sp, registers.link
            if back is None:
                back, sp = machine.memory.read_int(sp, size), sp + size
            # Some do not return in time: a read of the console, for example.
            registers = machine.vcpus[session.boot.stepper.out(cpu)].registers
            assert (registers.pc, registers.sp) == (back, sp), name
            seen += 1
    assert seen > 5


def test_finish_under_the_graph_tracer_stops_at_return_to_handler(shell: Shell) -> None:
    session = shell.session
    sh(shell, "echo function_graph > current_tracer")
    cpu = session.boot.stepper.until(FUNCTION, "syscalls")
    # Into the body; the return address has been replaced.
    at = site(session)
    while not at < pc(session, cpu) <= at + 20 or session.boot.stepper.elapsed(cpu) < 100:
        cpu = session.boot.stepper.over(cpu)
    cpu = session.boot.stepper.out(cpu)
    assert where(session, cpu) == "return_to_handler"
    cpu = session.boot.stepper.out(cpu)
    assert where(session, cpu) not in ("return_to_handler", FUNCTION)


@pytest.mark.parametrize("arch", FAMILIES)
def test_back_undoes_each_step(arch: str) -> None:
    shell = traced(arch)
    session = shell.session
    sh(shell, f"until {FUNCTION} syscalls")
    states = [digest(session)]
    for command in ("next", "step 2", "finish"):
        sh(shell, command)
        states.append(digest(session))
    assert len(set(states)) == 4
    for state in states[-2::-1]:
        sh(shell, "back")
        assert digest(session) == state


def test_the_next_workload_waits_for_the_current_one() -> None:
    shell = traced(arches.DEFAULT)
    sh(shell, "run syscalls")
    sh(shell, "run locks")
    wanted = digest(shell.session)
    shell = traced(arches.DEFAULT)
    # Before the guest has taken the request.
    shell.session.boot.stepper.until("do_IRQ", "syscalls")
    sh(shell, "run locks")
    assert digest(shell.session) == wanted


# On one port


@pytest.fixture
def one() -> Shell:
    return traced("x86_64")


@pytest.mark.parametrize(
    ("arch", "native"), [*((arch, None) for arch in FAMILIES), (arches.DEFAULT, False)]
)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_stopping_inside_blocks_changes_nothing(
    arch: str, native: bool | None, data: st.DataObject
) -> None:
    """The guest's clock counts whole blocks, even if a run stops inside one."""
    shell = traced(arch, native=native)
    session = shell.session
    start = session.code_address("function_trace_call")
    assert start is not None
    insns = session.instructions(start, 60)
    slots = {a.end for a in insns if session.port.has_delay_slot(a.data)}
    places = [f"0x{insn.address:x}" for insn in insns if insn.address not in slots]
    names = ["vfs_read", "schedule", "ftrace_caller", "do_IRQ"]
    drawn = data.draw(st.lists(st.sampled_from(places + names), min_size=1, max_size=12))
    for number, place in enumerate(drawn):
        if number and session.boot.machine.requests.started is None:
            break  # the workload has ended
        with suppress(GuestError):
            session.boot.stepper.until(place, "syscalls")
    assert finished(session) == _plain_run(arch)


@cache
def _plain_run(arch: str) -> str:
    other = traced(arch)
    sh(other, "run syscalls")
    return digest(other.session)


@pytest.mark.parametrize("arch", ["mips", "mips64"])
def test_until_refuses_a_delay_slot(arch: str) -> None:
    session = traced(arch).session
    start = session.code_address("schedule")
    assert start is not None
    insns = session.instructions(start, 200)
    slots = [b.address for a, b in pairwise(insns) if session.port.has_delay_slot(a.data)]
    assert slots
    with pytest.raises(UsageError, match="is a delay slot"):
        session.boot.stepper.until(f"0x{slots[0]:x}")


@pytest.mark.parametrize(
    "place", ["nosuch", "0x10", "jiffies", "0xffffffffffffffffff", "schedule+zz"]
)
def test_until_refuses_an_invalid_place(one: Shell, place: str) -> None:
    outcome = one.execute(f"until {place}")
    assert outcome.status == 1 and outcome.error.startswith("until: ")
    assert outcome.error.count("\n") == 1


def test_until_reports_a_workload_that_ends_or_is_busy(one: Shell) -> None:
    outcome = one.execute("until do_exit nosuch")
    assert "unknown workload 'nosuch'" in outcome.error
    outcome = one.execute("until panic syscalls")
    assert outcome.error == "until: panic was not reached: workload syscalls has ended\n"
    sh(one, f"until {FUNCTION} syscalls")
    outcome = one.execute(f"until {FUNCTION} locks")
    assert "workload syscalls is still running" in outcome.error
    sh(one, "run locks")
    sh(one, f"until {FUNCTION} syscalls")


def test_until_reports_a_timeout(one: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynftrace.core.session.stepping.LIMIT_NS", 2_000_000)
    before = one.session.now
    one.session.run(1_000_000)
    with pytest.raises(GuestError, match=r"vfs_read was not reached within 0.002 s"):
        one.session.boot.stepper.until("vfs_read")
    assert one.session.now - before <= 3_000_000


@needs_keystone
def test_until_reports_an_oops(one: Shell) -> None:
    sh(one, "poke vfs_write+5 ud2")
    outcome = one.execute("until vfs_write+5 syscalls")
    assert outcome.status == 0
    outcome = one.execute("until vfs_write+7")
    assert outcome.status == 1 and outcome.error.count("\n") == 1
    assert outcome.error.startswith("until: vfs_write+7 was not reached: CPU ")
    assert outcome.error.endswith("has stopped: illegal instruction\n")


def test_ctrl_c_stops_step_and_until(one: Shell) -> None:
    session = one.session
    for command in ("step 100000", "until do_exit"):
        timer = threading.Timer(0.2, session.stop)
        timer.start()
        outcome = one.execute(command)
        timer.join()
        assert outcome.status == 1 and outcome.error.endswith("was interrupted\n"), command
    with pytest.raises(GuestInterrupted):
        timer = threading.Timer(0.2, session.stop)
        timer.start()
        session.boot.stepper.until("do_exit")


def test_until_does_not_flush_stale_translations(one: Shell) -> None:
    """Only the place itself is translated again; other changes stay invisible until a flush."""
    session = one.session
    sh(one, "run syscalls 3")
    address = session.address_of("ksys_read")
    session.boot.machine.memory.write(address, b"\x0f\x0b")  # without a flush
    session.boot.stepper.until(FUNCTION, "syscalls")
    session.boot.machine.requests.finish_started(LIMIT_NS)
    assert not session.boot.machine.oopses
    session.boot.machine.flush(address, address + 2)
    assert one.execute("run syscalls").status == 1
    assert session.boot.machine.oopses[0].pc == address


def test_an_idle_cpu_can_step_but_not_finish(one: Shell) -> None:
    session = one.session
    session.run(100_000)
    idle = next(vcpu for vcpu in session.boot.machine.vcpus if vcpu.state is State.IDLE)
    outcome = one.execute(f"finish {idle.number}")
    assert outcome.error == f"finish: CPU {idle.number} is not running\n"
    sh(one, f"next {idle.number}")
    assert where(session, idle.number) == "common_interrupt"


@pytest.mark.parametrize("command", ["next 7", "until", "finish 0 1"])
def test_wrong_arguments_are_a_usage_error(one: Shell, command: str) -> None:
    assert one.execute(command).status == 2
