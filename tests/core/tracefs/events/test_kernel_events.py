"""The kernel's trace events: written by the guest, printed as their formats say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.tracefs.tracedat import recorded

from ....support.user import User

Sh = Callable[[str], str]

SWITCH = re.compile(r"prev_pid=(\d+) .* ==> .* next_pid=(\d+) next_prio=\d+$")
PID = re.compile(r" pid=(\d+)")


def lines(sh: Sh, name: str) -> list[str]:
    """Return the rows of one event, in order."""
    return [line for line in sh("cat trace").splitlines() if f" {name}: " in line]


@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips", "arm64"])
def test_switches_are_those_that_the_scheduler_counts(arch: str) -> None:
    user = User(arch)
    user("echo 1 > events/sched/enable")
    before = user.session.call("nr_context_switches", [])
    user("run syscalls")
    after = user.session.call("nr_context_switches", [])
    user("echo 0 > tracing_on")
    switches = lines(user, "sched_switch")
    # The two calls run in tasks of their own, so some switches are outside.
    assert 0 <= len(switches) - (after - before) <= 6
    # On each CPU a task that is switched in is the next to be switched out.
    running: dict[str, str] = {}
    for line in switches:
        cpu = line.split("[")[1][:3]
        match = SWITCH.search(line)
        assert match is not None
        assert running.get(cpu, match[1]) == match[1]
        running[cpu] = match[2]
    forked = [line.rsplit("child_pid=")[1] for line in lines(user, "sched_process_fork")]
    woken = [PID.findall(line)[0] for line in lines(user, "sched_wakeup_new")]
    assert sorted(forked) == sorted(woken) and len(forked) >= 4


def test_an_event_that_is_off_writes_nothing(session: Session, sh: Sh) -> None:
    sh("echo 1 > events/irq/enable; run syscalls; echo 0 > events/enable; echo > trace")
    sh("run syscalls")
    assert not [line for line in sh("cat trace").splitlines() if line[0] != "#"]


def test_numbers_are_distinct_and_formats_have_them(session: Session, sh: Sh) -> None:
    numbers = []
    for name in sh("cat available_events").split():
        path = f"events/{name.replace(':', '/')}"
        numbers.append(int(sh(f"cat {path}/id")))
        assert f"\nID: {numbers[-1]}\n" in sh(f"cat {path}/format")
    assert len(set(numbers)) == len(numbers)


def test_trace_cmd_reads_the_same(tmp_path: Path, session: Session, sh: Sh) -> None:
    if which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    sh("echo 1 > events/enable; run syscalls; echo 0 > tracing_on")
    path = tmp_path / "trace.dat"
    path.write_bytes(recorded(session.boot.array))
    report = subprocess.run(
        ["trace-cmd", "report", "-N", "-i", str(path)], capture_output=True, text=True, check=True
    )
    assert "FAILED" not in report.stdout + report.stderr

    def texts(text: str, name: str) -> list[str]:
        found = [line.split(f" {name}: ")[1] for line in text.splitlines() if f" {name}: " in line]
        return [" ".join(each.split()) for each in found]

    own = sh("cat trace")
    for name in ("sched_switch", "sched_process_fork", "irq_handler_entry", "softirq_raise"):
        assert texts(own, name) == texts(report.stdout, name) != []


def test_pids_choose_events_of_one_or_two_tasks() -> None:
    user = User("x86_64")
    user("run syscalls; echo 13 > set_event_pid; echo 1 > events/sched/enable; run syscalls")
    assert user("cat set_event_pid") == "13\n"
    rows = [row for row in user("cat trace").splitlines() if row[0] != "#"]
    own = re.compile(r"-13 |[ _]pid=13 ")
    assert rows and all(own.search(row) for row in rows)
    assert any("-13 " not in row for row in rows)  # its wakeups by others
    user("echo 13 > set_event_notrace_pid; echo > set_event_pid; echo > trace; run syscalls")
    rows = [row for row in user("cat trace").splitlines() if row[0] != "#"]
    assert rows and not any("-13 " in row.split("[")[0] and "sched_process" in row for row in rows)
    assert user("cat set_event_pid") == "" and "Invalid" in user.refused("echo x > set_event_pid")


def test_loading_and_unloading_a_module_make_events() -> None:
    user = User("x86_64")
    user("echo 1 > events/module/enable; insmod usbcore; rmmod usbcore")
    told = [row.split(": ", 1)[1].strip() for row in user("cat trace").splitlines()[-2:]]
    assert told == ["module_load: usbcore", "module_free: usbcore"]
