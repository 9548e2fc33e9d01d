"""patch and icache: unsafe patching, and CPUs that do not see the change."""

from __future__ import annotations

import pytest

from dynftrace.core.shell.shell import Shell

from ...support.ports import FAMILIES
from ...support.user import User


def recorded(user: User, cpu: int) -> int:
    """Return the number of events a CPU has written."""
    return int(user(f"cat per_cpu/cpu{cpu}/stats").splitlines()[0].split()[1])


def test_the_method_can_be_chosen_while_the_machine_runs() -> None:
    user = User("x86_64")
    before = user.text()
    assert user("patch") == "[stop_machine] breakpoint none nmi_enter\n"
    user("patch breakpoint")
    assert user("patch") == "stop_machine [breakpoint] none nmi_enter\n"
    user("echo function > current_tracer; run syscalls; patch stop_machine")
    user("echo nop > current_tracer")
    user.same_text(before)
    refused = user.refused("patch fast")
    assert (
        "unknown method 'fast' (choose from: stop_machine, breakpoint, none, nmi_enter)" in refused
    )
    user("reboot")
    assert user("patch") == "[stop_machine] breakpoint none nmi_enter\n"


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_cpu_that_is_not_flushed_runs_old_text_until_it_is_flushed(arch: str) -> None:
    user = User(arch, cpus=2)
    user("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls")
    user("echo nop > current_tracer; run syscalls; run syscalls; icache skip 1")
    assert user("icache").splitlines()[1] == "cpu1  not flushed: may run old text"
    user("echo function > current_tracer; run syscalls; run syscalls")
    assert recorded(user, 0) > 0 and recorded(user, 1) == 0
    assert user.state("schedule") == "enabled"  # memory is already patched
    user("icache flush 1; run syscalls; run syscalls")
    assert recorded(user, 1) > 0
    assert all(line.endswith("flushed after a patch") for line in user("icache").splitlines())


def test_sleep_can_be_counted_as_a_latency() -> None:
    user = User("x86_64")
    assert user("idle") == "[excluded] counted\n"
    user("idle counted; back; idle counted")
    assert user("idle") == "excluded [counted]\n"
    assert "unknown choice 'on' (choose from: excluded, counted)" in user.refused("idle on")
    user("reboot")
    assert user("idle") == "[excluded] counted\n"


def test_back_skips_commands_that_change_nothing() -> None:
    user = User("ppc32")
    user("icache skip 0\nicache; patch\nrun")
    assert user("back") == "undone: icache skip 0\n"
    assert "nothing to undo" in user.refused("back")


def test_invalid_arguments_are_refused() -> None:
    shell = Shell(User("ppc32").session)
    for text, error in (
        ("icache skip", "missing argument"),
        ("icache skip 2", "CPU 2 does not exist: valid CPUs are 0-1"),
        ("icache flush x", "CPU must be a number, not 'x'"),
        ("icache look 1", "unknown action 'look' (choose from: skip, flush)"),
        ("patch none none", "unexpected argument 'none'"),
    ):
        assert error in shell.execute(text).error
