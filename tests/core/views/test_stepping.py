"""The position of a CPU, hop by hop through a traced call, on a port of each family."""

from __future__ import annotations

import pytest

from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.stepping import HOPS

from ...support.ports import FAMILIES
from ...support.user import opened

MODULE_FUNCTION = "usb_ifnum_to_if"


@pytest.fixture(params=FAMILIES)
def shell(request: pytest.FixtureRequest) -> Shell:
    """A machine with usbcore and a traced function."""
    shell = Shell(opened(str(request.param)))
    far = " --far" if shell.session.port.facts.modules_far is not None else ""
    for command in (
        f"insmod{far} usbcore",
        f"echo {MODULE_FUNCTION} > set_ftrace_filter",
        "echo function > current_tracer",
        f"until {MODULE_FUNCTION} usb",
    ):
        outcome = shell.execute(command)
        assert (outcome.error, outcome.status) == ("", 0), command
    return shell


def test_the_hops_of_a_call_come_in_order(shell: Shell) -> None:
    session = shell.session
    cpu = session.boot.stepper.last
    assert cpu is not None
    hops, longest = [], 0
    for _ in range(60):
        view = session.stepping(cpu)
        longest = max(longest, *(len(row.data) for row in view.code))
        here = [row for row in view.code if row.here]
        assert len(here) == 1
        line = session.instruction(cpu)
        assert here[0].data.hex(" ") in line and f"{here[0].address:x}" in line
        assert view.place in line
        if view.hop is not None and view.hop not in hops[-1:]:
            hops.append(view.hop)
        if hops[-1:] == ["tracer"]:
            break
        session.step(cpu)
    prefix = session.port.facts.abi.text_prefix
    row = list(session.boot.ftrace.records.names).index(prefix + MODULE_FUNCTION)
    stubs = any(
        hop.label == "stub" for hop in session.call_path(session.boot.ftrace.records.ip_of(row))
    )
    assert hops == [hop for hop in HOPS if hop != "stub" or stubs]
    assert view.stubs == stubs
    assert view.row_bytes == (8 if session.port.facts.insn_align == 1 else longest)


def test_a_step_shows_what_it_changed(shell: Shell) -> None:
    session = shell.session
    cpu = session.boot.stepper.last
    assert cpu is not None
    before, now = session.boot.machine.registers(cpu), session.boot.machine.vcpus[cpu].ticks
    steps = session.stepping(cpu).steps
    session.step(cpu)
    view = session.stepping(cpu)
    after = session.boot.machine.registers(cpu)
    pc = session.port.facts.abi.pc.name
    changed = {name: before[name] for name in after if after[name] != before[name] and name != pc}
    assert {row.name: row.old for row in view.registers if row.old is not None} == changed
    assert {row.name: row.value for row in view.registers} == after
    assert view.elapsed == view.now - now > 0
    assert view.steps == steps + 1
    assert view.task.rpartition("-")[2] == str(session.boot.machine.vcpus[cpu].local["pid"])


def test_the_whole_site_has_a_line_of_the_source(shell: Shell) -> None:
    session = shell.session
    cpu = session.boot.stepper.last
    assert cpu is not None
    prefix = session.port.facts.abi.text_prefix
    row = session.boot.ftrace.records.names.index(prefix + MODULE_FUNCTION)
    site = session.call_site(session.boot.ftrace.records.ip_of(row))
    assert site.source is not None
    while session.boot.steppings.hop_at(session.boot.machine.vcpus[cpu].registers.pc) == "site":
        view = session.stepping(cpu)
        assert view.source is not None and view.source[0] == site.source[0]
        if session.source_line(session.boot.machine.vcpus[cpu].registers.pc) is None:
            assert view.source == site.source
        session.step(cpu)


def test_places_outside_a_call_have_no_hop(shell: Shell) -> None:
    session = shell.session
    assert session.boot.steppings.hop_at(session.address_of("schedule") + 64) is None
    assert session.boot.steppings.hop_at(0) is None
    ends = [session.boot.ftrace.entry["return_to_handler"]]
    assert [session.boot.steppings.hop_at(each) for each in ends] == [None]


def test_a_cpu_in_unmapped_memory_is_shown(shell: Shell) -> None:
    session = shell.session
    session.boot.machine.set_registers(1, {session.port.facts.abi.pc.name: 0x1000})
    view = session.stepping(1)
    assert [row.text for row in view.code] == ["not mapped"] and view.code[0].here
