"""--stop-at: a boot that stops while call sites are still as compiled."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.errors import TracefsError, UsageError
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.ports import FAMILIES
from ...support.user import executor, opened


def text_of_sites(session: Session) -> bytes:
    """Return the text of all sites that have no record yet."""
    ftrace = session.boot.ftrace
    assert ftrace.early is not None
    size = session.port.facts.sites.size
    return session.boot.machine.memory.gather(ftrace.early, size)[0].tobytes()


@pytest.mark.parametrize("arch", FAMILIES)
def test_sites_are_patched_out_when_the_kernel_gets_to_ftrace_init(arch: str) -> None:
    session = opened(arch, cpus=1, stop_at="ftrace_init")
    run, ftrace = executor(session), session.boot.ftrace
    prefix = session.port.facts.abi.text_prefix
    assert "ftrace_init" in session.instruction(0)
    (ip,) = session.unfound_sites("schedule")
    compiled, early = text_of_sites(session), ftrace.early
    assert "as compiled" in run("site schedule")
    assert "no record: ftrace_init has not run" in run("site schedule")
    with pytest.raises(TracefsError, match="ftrace_init has not run yet"):
        session.boot.tracefs.write("current_tracer", "function")
    run("step 4")
    assert text_of_sites(session) == compiled and early is not None
    run("until sched_init")
    assert session.boot.ftrace.early is None
    assert session.boot.ftrace.records.table["ip"].tolist() == early.tolist()
    assert all(
        ftrace.state(row).found == ftrace.state(row).expected for row in range(0, len(early), 50)
    )
    assert f"{prefix}schedule  ip {ip:x}  nop" in run("site schedule")
    run("sleep 0.01; echo function > current_tracer; run syscalls")
    assert "schedule <-" in run("cat trace")


@pytest.mark.parametrize("arch", [each for each in FAMILIES if each != "arm64"])
def test_before_that_a_step_goes_through_mcount(arch: str) -> None:
    session = opened(arch, cpus=1, stop_at="mm_init")
    mcount = session.boot.ftrace.mcount
    pc = session.port.facts.abi.pc.name
    visited = []
    session.step(0, 14, lambda: visited.append(session.boot.machine.registers(0)[pc]))
    assert mcount in visited


def test_with_ftraced_mcount_calls_ftrace_stub_until_then() -> None:
    spec = MachineSpec(cpus=1, stop_at="ftrace_init")
    session = Session.open(arches.load("x86_64-2008"), spec)
    run, ftraced = executor(session), session.boot.ftrace.ftraced
    assert ftraced is not None
    assert "ftraced_init" in session.instruction(0)
    assert "calls ftrace_stub" in run("tramp")
    run("sleep 0.01")
    assert "calls ftrace_record_ip" in run("tramp")


def test_reboot_can_stop_too_and_back_undoes_it() -> None:
    session = opened("x86_64", cpus=1)
    run, boot = executor(session), session.boot
    run("echo vfs_read > set_ftrace_filter; sleep 1")
    before = session.now, boot.machine.registers(0)
    run("reboot --stop-at ftrace_init; step 3")
    assert session.boot.ftrace.early is not None and session.boot is not boot
    assert "no record" in run("site schedule")
    stopped = session.boot.machine.registers(0)
    run("step 2")
    run("back")
    assert session.boot.machine.registers(0) == stopped
    run("back")
    assert session.boot is boot and (session.now, boot.machine.registers(0)) == before
    assert run("cat set_ftrace_filter") == "vfs_read\n"
    run("reboot --stop-at ftrace_init")
    run("reboot")
    assert session.boot.ftrace.early is None and session.spec.stop_at is None
    run("back 2")
    assert (session.now, session.boot.machine.registers(0)) == before
    run("reboot; echo function > current_tracer")
    for text, error in (
        ("reboot --stop-at nosuch", "the boot cannot stop at 'nosuch'"),
        ("reboot --stop-at", "missing argument"),
        ("reboot now please", "unknown option 'now' (choose from: --stop-at)"),
    ):
        assert error in Shell(session).execute(text).error
    assert run("cat current_tracer") == "function\n"


def test_modules_cannot_be_loaded_then() -> None:
    with pytest.raises(UsageError, match="the boot stops before"):
        Session.open(
            arches.load("x86_64"), MachineSpec(modules=("usbcore",), stop_at="ftrace_init")
        )
