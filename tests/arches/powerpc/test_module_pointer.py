"""rec->arch.mod: the stub of a site is found through its module's struct module."""

from __future__ import annotations

import pytest

from ...support.user import User

PORTS = ["ppc64", "ppc32"]
SITE = "usb_ifnum_to_if"


@pytest.fixture(params=PORTS)
def user(request: pytest.FixtureRequest) -> User:
    user = User(request.param)
    user(f"insmod usbcore; echo {SITE} > set_ftrace_filter")
    return user


def tramp(user: User) -> int:
    """Return the address of `mod->arch.tramp` of usbcore."""
    session = user.session
    at = session.address_of("__this_module [usbcore]") + 64 + 2 * session.port.facts.pointer_size
    memory = session.boot.machine.memory
    assert memory.read_int(at) == session.address_of("ftrace_caller.stub")
    return at


def test_records_of_a_module_keep_its_address(user: User) -> None:
    records = user.session.boot.ftrace.records
    mod = user.session.address_of("__this_module [usbcore]")
    of_module = records.table["module"] >= 0
    assert set(records.table["mod"][of_module].tolist()) == {mod}
    assert not records.table["mod"][~of_module].any()
    shown = user(f"records {SITE}")
    assert f"arch.mod    {mod:x}  struct module of usbcore" in shown
    assert f"read from {tramp(user):x}" in shown


def test_without_a_stub_in_the_module_the_site_cannot_be_enabled(user: User) -> None:
    before, size = user.text(), user.session.port.facts.pointer_size
    user(f"poke {tramp(user):x} {'00' * size}")
    assert "No ftrace trampoline: " in user.refused("echo function > current_tracer")
    assert user.text() == before


def test_a_stub_that_leads_elsewhere_is_refused(user: User) -> None:
    other = user.session.address_of("printk.stub")
    size = user.session.port.facts.pointer_size
    user(f"poke {tramp(user):x} {other.to_bytes(size, 'big').hex()}")
    refused = user.refused("echo function > current_tracer")
    assert "does not match expected" in refused


def test_a_module_whose_site_calls_another_function_shuts_ftrace_off(user: User) -> None:
    error = user.refused("insmod usbcore-stray")
    assert "usbcore-stray is loaded, but ftrace is off until a reboot" in error
    assert "does not match expected" in error
    assert "it calls printk.stub (leads to " in error and "and not _mcount.stub" in error
    assert "has stopped" in error  # its init calls printk, with other arguments
    assert "usbcore_stray" in user("lsmod")
    assert "Initializing ftrace call sites" in user("dmesg")
    assert "No such device" in user.refused("echo function_graph > current_tracer")
