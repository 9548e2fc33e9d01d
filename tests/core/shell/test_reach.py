"""Typed branches out of reach are refused, and nothing is written."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone

pytestmark = needs_keystone


@pytest.fixture(scope="module", params=["ppc64", "ppc32"])
def shell(request: pytest.FixtureRequest) -> Shell:
    spec = MachineSpec(modules=("usbcore",))
    return Shell(Session.open(arches.load(request.param), spec))


@pytest.mark.parametrize(
    "line",
    ["bl ftrace_caller", "bl schedule", "bl printk+8", "b 0x1000", "beq schedule"],
)
def test_a_branch_out_of_reach_is_refused(shell: Shell, line: str) -> None:
    session = shell.session
    address = session.address_of("usb_ifnum_to_if")
    before = session.boot.machine.memory.read(address, 16)
    outcome = shell.execute(f"poke usb_ifnum_to_if {line}")
    assert outcome.status != 0
    assert "does not reach that far" in outcome.error
    assert session.boot.machine.memory.read(address, 16) == before


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("bl usb_get_dev", "bl {prefix}usb_get_dev"),
        ("bl ftrace_caller.stub", "bl ftrace_caller.stub"),
        ("b usb_ifnum_to_if + 0x20", "b {prefix}usb_ifnum_to_if+0x20"),
        ("blr", "blr"),
        ("li r3, 40", "li r3, "),
    ],
)
def test_a_branch_within_reach_is_written(shell: Shell, line: str, text: str) -> None:
    outcome = shell.execute(f"poke usb_ifnum_to_if {line}")
    assert (outcome.error, outcome.status) == ("", 0)
    prefix = shell.session.port.facts.abi.text_prefix
    assert text.format(prefix=prefix) in outcome.output


def test_long_branches_have_a_reach_as_well() -> None:
    shell = Shell(Session.open(arches.load("x86_64"), MachineSpec(boot=False)))
    assert shell.execute("poke schedule call kfree").status == 0
    outcome = shell.execute("poke schedule call 0x100000000000")
    assert outcome.status != 0
    assert outcome.error
