"""The ftrace bug report for a damaged site of a module, on a running machine."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ....support.keystone import needs_keystone

SITE = ".usb_ifnum_to_if+0x1c"


@pytest.fixture
def shell() -> Shell:
    """Trace only usb_ifnum_to_if."""
    session = Session.open(arches.load("ppc64"), MachineSpec(modules=("usbcore",)))
    shell = Shell(session)
    outcome = shell.execute(
        "echo usb_ifnum_to_if > set_ftrace_filter; echo function > current_tracer"
    )
    assert outcome.status == 0
    return shell


@pytest.mark.parametrize(
    ("poke", "reason"),
    [
        pytest.param(
            f"poke {SITE} bl _mcount.stub",
            "it calls _mcount.stub (leads to ._mcount) "
            "and not ftrace_caller.stub (leads to ftrace_caller)",
            marks=needs_keystone,
        ),
        (
            f"poke {SITE}+4 60000000",
            "no restore of r2 (ld r2,40(r1)) after the bl: Expected e8410028",
        ),
        (f"poke {SITE} 60000000", "Not expected bl: opcode is 60000000"),
        (
            "poke ftrace_caller.stub+0x24 0x00000040",
            "leads elsewhere: addr c000000000000040 does not match expected c000000001000000",
        ),
    ],
)
def test_the_report_names_the_damage(shell: Shell, poke: str, reason: str) -> None:
    address = shell.session.address_of(SITE)
    poke = poke.replace(f"{SITE}+4", hex(address + 4))
    assert shell.execute(poke).status == 0
    before = shell.session.boot.machine.memory.read(address, 8)
    outcome = shell.execute("echo nop > current_tracer")
    assert reason in outcome.error
    assert reason in shell.execute("dmesg").output
    assert shell.session.boot.machine.memory.read(address, 8) == before
