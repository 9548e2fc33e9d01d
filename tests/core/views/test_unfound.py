"""Call sites as shown before ftraced has found them."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.ftraced import address, machine, sh, site_of
from ...support.keystone import needs_keystone


@pytest.fixture
def session() -> Session:
    return machine()


def test_a_site_that_is_not_found_yet_is_shown_as_compiled(session: Session) -> None:
    ip = site_of(session, "sys_umount")
    lines = sh(session, "site sys_umount").splitlines()
    assert lines[0] == f"sys_umount  ip {ip:x}  not found yet  0 users"
    assert any("the same  e8" in line and "call mcount" in line for line in lines)
    assert lines[-1].startswith("no record: not called since")
    sh(session, "echo function > current_tracer")
    assert "ftraced finds nothing while functions are traced" in sh(session, "site sys_umount")


def test_a_site_with_a_slot_waits_for_ftraced(session: Session) -> None:
    assert sh(session, "site schedule").endswith("and makes it a nop when it wakes\n")
    sh(session, "echo 0 > ftraced_enabled; sleep 1")
    assert sh(session, "site schedule").endswith("ftraced_enabled is 0: it makes no nops\n")
    sh(session, "echo 1 > ftraced_enabled; sleep 1")
    assert f"ip {site_of(session, 'schedule'):x}  nop  " in sh(session, "site schedule")


def test_a_site_of_a_module_is_shown_before_it_is_found(session: Session) -> None:
    text = sh(session, "insmod usbcore; site usb_ifnum_to_if")
    assert "usb_ifnum_to_if [usbcore]  ip " in text and "in file   e8 00 00 00 00" in text
    outcome = Shell(session).execute("rmmod usbcore; site usb_ifnum_to_if")
    assert outcome.error == "site: usb_ifnum_to_if: no function of that name has a call site\n"


def test_functions_without_a_call_have_no_site(session: Session) -> None:
    for name in ("mcount", "ftraced", "ftrace_record_ip", "jiffies", "", "no such"):
        assert "has a call site" in Shell(session).execute(f"site '{name}'").error


def test_the_path_of_an_unfound_site_leads_to_the_recorder(session: Session) -> None:
    hops = session.boot.paths.mcount_hops()
    assert [hop.name for hop in hops] == ["mcount", "mcount_call", "ftrace_record_ip"]
    assert all(hop.verified for hop in hops)
    assert hops[0].address == address(session, "mcount")
    sh(session, "echo function > current_tracer")
    hops = session.boot.paths.mcount_hops()
    assert [hop.name for hop in hops] == ["mcount", "mcount_call", "ftrace_stub"]
    assert hops[2].address == session.image.symbols.address_of("ftrace_stub")
    assert hops[2].note == "returns: nothing is noted"
    text = sh(session, "tramp")
    assert text.index("mcount_call") < text.index("ftrace_caller")


@needs_keystone
def test_damage_to_mcount_is_shown_on_the_path(session: Session) -> None:
    sh(session, "poke mcount 90; poke mcount_call 'call printk'")
    hops = session.boot.paths.mcount_hops()
    assert [(hop.name, hop.verified) for hop in hops] == [
        ("mcount", False),
        ("mcount_call", False),
        ("printk", False),
    ]
    assert hops[2].note == "is not the function to call here"


def test_the_tracefs_readme_names_existing_files(session: Session) -> None:
    table = Session.open(arches.load("x86_64"))
    for each in (session, table):
        lines = each.boot.tracefs.read("README").splitlines()
        assert max(map(len, lines)) <= 80
        named = any("ftraced_enabled" in line for line in lines)
        assert named == ("ftraced_enabled" in each.boot.tracefs.listdir())
