"""protect: text that ftrace cannot read or write, reported as the kernel reports it."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.abi import TICK_NS
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone
from ...support.ports import FAMILIES
from ...support.user import User

ERRORS = {
    ("none", "Bad address"): "ftrace faulted on modifying",
    ("ro", "Operation not permitted"): "ftrace faulted on writing",
    ("ro", "Bad address"): "ftrace faulted on modifying",
}


@pytest.mark.parametrize("arch", FAMILIES)
@pytest.mark.parametrize("protection", ["none", "ro"])
def test_ftrace_reports_text_it_cannot_access_and_changes_nothing(
    arch: str, protection: str
) -> None:
    user = User(arch)
    before = user.text()
    user(f"protect schedule {protection}")
    refused = user.refused("echo function > current_tracer")
    mips = arches.load(arch).facts.elf_machine == 8  # EM_MIPS
    error = "Bad address" if protection == "none" or mips else "Operation not permitted"
    assert refused.startswith(f"dynftrace: write error: {error}: {ERRORS[protection, error]} [<")
    log = user("dmesg")
    assert f"{ERRORS[protection, error]} " in log.splitlines()[-6]
    assert "Setting ftrace call site to call ftrace function" in log
    assert user("cat current_tracer") == "nop\n"
    assert "No such device" in user.refused("echo function_graph > current_tracer")
    user("protect schedule rw")
    assert user("protect") == "no page of code is protected\n"
    assert user.text() == before
    user("reboot; echo function > current_tracer")


@pytest.mark.parametrize("arch", FAMILIES)
def test_disabling_a_site_needs_its_page_too(arch: str) -> None:
    user = User(arch)
    user("echo schedule > set_ftrace_filter; echo function > current_tracer")
    user("protect schedule none")
    assert "ftrace faulted on modifying" in user.refused("echo nop > current_tracer")
    assert "Setting ftrace call site to NOP" in user("dmesg")
    assert user("cat current_tracer") == "function\n"
    assert "its memory is not mapped" in user(f"site {user.prefix}schedule")


@pytest.mark.parametrize("arch", ["ppc32", "ppc64"])
def test_a_stub_that_cannot_be_read_is_named(arch: str) -> None:
    user = User(arch)
    user("insmod usbcore; echo usb_ifnum_to_if > set_ftrace_filter")
    user("protect ftrace_caller.stub none")
    stub = user.session.address_of("ftrace_caller.stub")
    assert "Bad address" in user.refused("echo function > current_tracer")
    assert f" at:       [<{stub:08x}>] ftrace_caller.stub+0x0/" in user("dmesg")


def test_the_slot_in_ftrace_caller_is_text_too() -> None:
    user = User("x86_64")
    user("protect ftrace_call ro")
    assert "ftrace faulted on writing" in user.refused("echo function > current_tracer")
    assert "Updating ftrace call site to call a different ftrace function" in user("dmesg")


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_cpu_that_executes_an_unmapped_page_oopses(arch: str) -> None:
    user = User(arch)
    user("protect schedule none")
    assert "has stopped" in user.refused("run syscalls")
    crashed = user.session.boot.machine.oopses[0].pc
    page = user.session.address_of("schedule") & ~0xFFF
    assert crashed & ~0xFFF == page
    assert "not mapped" in user.refused(f"poke {crashed:x} 00000000")


@needs_keystone
def test_a_read_only_page_runs_and_refuses_a_poke() -> None:
    user = User("arm64")
    user("protect schedule ro; run syscalls")
    assert "write-protected" in user.refused("poke schedule nop")
    assert "its text cannot be written" in user("site schedule")
    user("back 2")
    assert user("protect") == "no page of code is protected\n"
    user.session.run(TICK_NS)


def test_invalid_arguments_are_refused() -> None:
    shell = Shell(User("x86_64").session)
    for text, error in (
        ("protect schedule", "missing argument"),
        ("protect schedule rx", "unknown protection 'rx' (choose from: none, ro, rw)"),
        ("protect jiffies none", "only pages of code can be protected"),
        ("protect 0 none", "only pages of code can be protected"),
    ):
        assert error in shell.execute(text).error
