"""set_ftrace_pid and set_ftrace_notrace_pid: accepted, listed and refused PIDs."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

Sh = Callable[[str], str]

FILES = ("set_ftrace_pid", "set_ftrace_notrace_pid")


@pytest.mark.parametrize("path", FILES)
def test_pids_are_listed_once_and_in_order(sh: Sh, path: str) -> None:
    assert sh(f"cat {path}") == "no pid\n"
    assert sh(f"echo 30 4 0x10 010 4 > {path}; cat {path}") == "4\n8\n16\n30\n"
    assert sh(f"echo 5 >> {path}; cat {path}") == "4\n5\n8\n16\n30\n"
    assert sh(f"echo >> {path}; cat {path}") == "4\n5\n8\n16\n30\n"
    assert sh(f"echo 0 > {path}; cat {path}") == "0\n"
    assert sh(f"echo > {path}; cat {path}") == "no pid\n"
    assert sh("cat " + " ".join(FILES)) == "no pid\nno pid\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("7 x", errno.EINVAL),
        ("-1", errno.EINVAL),
        ("08", errno.EINVAL),
        ("1" * 128, errno.EINVAL),
        (str(1 << 64), errno.ERANGE),
        (str(1 << 30), errno.EPERM),
        (f"7 {0xFFFF_FFFF}", errno.EPERM),
    ],
)
def test_an_invalid_pid_refuses_the_whole_write(
    session: Session, sh: Sh, text: str, code: int
) -> None:
    sh("echo 3 > set_ftrace_pid")
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write("set_ftrace_pid", text, append=True)
    assert caught.value.errno == code
    assert sh("cat set_ftrace_pid") == "3\n"
    assert sh(f"echo {(1 << 30) - 1} > set_ftrace_pid; cat set_ftrace_pid") == "1073741823\n"


def test_other_events_are_recorded_for_all_tasks(session: Session, sh: Sh) -> None:
    sh("echo 'f:opened do_sys_openat2' > dynamic_events; echo 1 > events/fprobes/opened/enable")
    sh("echo 1 > set_ftrace_pid; echo function > current_tracer; echo > trace; run syscalls")
    events = session.boot.ring.events().events
    functions = events["type"] == TraceType.FN
    assert set(events["pid"][functions].tolist()) <= {1}
    assert len(set(events["pid"][~functions].tolist())) > 1


def test_a_reboot_clears_the_pids(session: Session, sh: Sh) -> None:
    sh("echo 4 > set_ftrace_pid; echo function > current_tracer")
    session.reboot()
    assert session.boot.tracefs.read("set_ftrace_pid") == "no pid\n"
    session.boot.tracefs.write("current_tracer", "function")
    session.run(5_000_000)
    assert len(session.boot.ring.events()) > 0


def test_a_list_follows_forks_and_exits_on_request(session: Session, sh: Sh) -> None:
    kthreadd = "2"
    sh(f"mkdir instances/x; echo {kthreadd} | tee set_ftrace_pid instances/x/set_ftrace_pid")
    sh("echo function | tee current_tracer instances/x/current_tracer")
    sh("echo 1 > options/function-fork; run locks; echo 0 | tee tracing_on instances/x/tracing_on")
    traced, alone = (
        {*re.findall(r"-(\d+) +\[", sh(f"cat {place}trace"))} for place in ("", "instances/x/")
    )
    assert alone == {kthreadd} < traced and len(traced) > 3
    # They have ended since, and the new tasks were removed.
    assert sh("sleep 0.01; cat set_ftrace_pid").split() == [kthreadd]
    assert sh("cat saved_cmdlines").count("torture") == len(traced) - 1


def test_a_list_whose_tasks_have_all_ended_selects_no_task(session: Session, sh: Sh) -> None:
    sh("echo 15 > set_ftrace_pid; echo 1 > options/function-fork; echo function > current_tracer")
    sh("run syscalls")  # as task 15
    assert {*re.findall(r"-(\d+) +\[", sh("cat trace"))} >= {"15"}
    assert sh("run locks; cat set_ftrace_pid") == ""  # the parent has taken note
    sh("> trace; run locks")
    assert "<-" not in sh("cat trace")
    assert "<-" in sh("> set_ftrace_pid; run locks; cat trace")
