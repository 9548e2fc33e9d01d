"""Effects: each command states what it did, so that no caller parses its output."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.outcome import (
    Effect,
    Loaded,
    NotLoaded,
    NotPatched,
    NotWritten,
    RanWorkload,
    Reached,
    ReadFile,
    Rebooted,
    ShowedBits,
    ShowedPatchMethods,
    ShowedPath,
    ShowedRecords,
    ShowedRegisters,
    ShowedSite,
    ShowedStubs,
    Stepped,
    Unloaded,
    WentBack,
    WroteFile,
)
from dynftrace.core.shell.shell import Shell

from ...support.user import opened


@pytest.fixture(scope="module")
def far() -> Shell:
    """A machine whose modules need stubs and whose code symbols have a prefix."""
    return Shell(opened("ppc64", modules=("usbcore",)))


def effects(shell: Shell, text: str) -> tuple[Effect, ...]:
    return shell.execute(text).effects


def test_commands_state_what_they_showed(far: Shell) -> None:
    session = far.session
    site = session.code_address("schedule")
    records = session.boot.ftrace.records
    ip = int(records.table["ip"][records.names.index(".schedule")])
    stub = session.address_of("ftrace_caller.stub")
    assert site is not None
    for text, wanted in (
        ("site schedule", (ShowedSite(ip, "schedule"),)),
        ("site schedule nothing .vfs_read", ("schedule", "vfs_read")),
        ("records schedule", (ShowedRecords("schedule"),)),
        ("records", (ShowedRecords(),)),
        ("tramp", (ShowedPath(),)),
        ("tramp usbcore", (ShowedStubs("usbcore"),)),
        ("tramp usbcore nothing", ()),
        ("bits schedule", (ShowedBits(ip, "schedule"),)),
        ("bits ftrace_caller.stub", (ShowedBits(stub, "ftrace_caller.stub"),)),
        ("regs 1", (ShowedRegisters(1),)),
        ("patch", (ShowedPatchMethods(),)),
        ("cat /sys/kernel/tracing/./trace", (ReadFile("trace"),)),
        ("cat per_cpu/cpu*/stats", tuple(ReadFile(f"per_cpu/cpu{n}/stats") for n in (0, 1))),
        ("cat nothing; ls; help; lsmod; dmesg", ()),
        ("echo '; site schedule'", ()),
        ("site schedule > trace_marker", (WroteFile("trace_marker", "…"),)),
    ):
        found = effects(far, text)
        if text.startswith("site schedule nothing"):
            assert [each.function for each in found if isinstance(each, ShowedSite)] == [*wanted]
        elif "> trace_marker" in text:
            (written,) = found
            assert isinstance(written, WroteFile) and "schedule" in written.text
        else:
            assert found == wanted, text


def test_site_states_the_address_of_a_site_without_a_record() -> None:
    shell = Shell(Session.open(arches.load("x86_64-2008")))
    (shown,) = effects(shell, "site sys_umount")
    assert isinstance(shown, ShowedSite)
    assert (shown.function, shown.recorded) == ("sys_umount", False)
    assert shell.session.boot.ftrace.records.find(shown.ip) is None


def test_commands_state_what_they_did(session: Session) -> None:
    shell = Shell(session)
    ip = session.address_of("vfs_open")
    assert effects(shell, "run syscalls 2; run") == (RanWorkload("syscalls", 2),)
    assert effects(shell, "run nothing") == ()
    assert effects(shell, "insmod usbcore; run usb; rmmod usbcore") == (
        Loaded("usbcore"),
        RanWorkload("usb"),
        Unloaded("usbcore"),
    )
    assert effects(shell, "insmod nothing") == (NotLoaded("nothing"),)
    (reached,) = effects(shell, "until vfs_open syscalls")
    assert reached == Reached("vfs_open", session.boot.stepper.last or 0, ip)
    cpu = session.boot.stepper.last or 0
    assert effects(shell, f"step 2 {cpu}; next; finish") == (Stepped(cpu),) * 3
    assert effects(shell, "until nowhere") == ()
    assert effects(shell, "echo 0 > /sys/kernel/tracing/tracing_on") == (
        WroteFile("tracing_on", "0\n"),
    )
    refused = NotWritten("current_tracer", errno.EINVAL, emptied=True)
    assert effects(shell, "echo maybe > current_tracer") == (refused,)
    assert effects(shell, "cd options; echo maybe | tee -a ../current_tracer") == (
        replace(refused, emptied=False),
    )
    unknown = NotWritten("nothing", errno.ENOENT, emptied=True)
    assert effects(shell, "cd; echo > nothing; echo > /tmp/nothing") == (unknown,)
    assert effects(shell, "back 2; reboot") == (WentBack(2), Rebooted())


def test_a_refused_patch_is_an_effect_that_names_the_site(session: Session) -> None:
    shell = Shell(session)
    ip = session.address_of("schedule")
    shell.execute("poke schedule cc")
    refused = (NotPatched(ip, "schedule"),)
    assert effects(shell, "echo function > current_tracer") == refused
    shell.execute("reboot; patch watch schedule; echo function > current_tracer; poke schedule cc")
    assert effects(shell, "patch finish") == refused


def test_effects_before_a_failure_are_kept(session: Session) -> None:
    outcome = Shell(session).execute("run syscalls&& cat tracing_on nothing")
    assert outcome.status == 1
    assert outcome.effects == (RanWorkload("syscalls"), ReadFile("tracing_on"))


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("cat trace", False),
        ("cat trace_pipe", True),
        ("cat /sys/kernel/tracing/trace_p*", True),
        ("cat per_cpu/cpu0/trace_pipe", True),
        ("ls trace_pipe; echo trace_pipe", False),
        ("patch; icache; run; site schedule; step nothing", True),
        ("patch; icache; run; site schedule; regs", False),
        ("patch none", True),
        ("echo > trace", True),
        ("echo x > nothing", True),
        ("nothing", False),
        ("reboot; back", False),
    ],
)
def test_a_command_states_whether_it_may_change_the_state(
    session: Session, text: str, changed: bool
) -> None:
    assert Shell(session).execute(text).changed == changed
    assert bool(session.journal.actions) == changed


def test_the_shells_messages_begin_with_its_given_name(session: Session) -> None:
    for name, begin in (("dynftrace", "dynftrace: "), ("", "")):
        shell = Shell(session, name)
        for text, error in (
            ("nothing", "nothing: command not found\n"),
            ("echo >", "syntax error: no file name after '>'\n"),
            ("echo > gone", "gone: No such file or directory\n"),
            ("echo x > README", "write error: Invalid argument\n"),
        ):
            assert shell.execute(text).error == begin + error
