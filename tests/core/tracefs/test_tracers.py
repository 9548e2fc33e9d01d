"""available_tracers, current_tracer, tracing_on, tracing_cpumask."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from dynftrace.core.abi import RingBufferFlag
from dynftrace.core.errors import FtraceBug, GuestError, TracefsError
from dynftrace.core.session.session import Session

Sh = Callable[[str], str]


def refused(session: Session, path: str, text: str) -> int:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, text)
    return caught.value.errno


def test_tracers_are_listed_and_chosen(session: Session, sh: Sh) -> None:
    available, current = sh("cat available_tracers current_tracer").splitlines()
    assert (
        available
        == "function_graph wakeup_rt wakeup preemptirqsoff preemptoff irqsoff function nop"
    )
    assert current == "nop"
    assert sh("echo '  function ' > current_tracer; cat current_tracer") == "function\n"
    assert refused(session, "current_tracer", "functio\n") == errno.EINVAL
    assert refused(session, "current_tracer", "\n") == errno.EINVAL
    assert sh("cat current_tracer") == "function\n"


def test_a_new_tracer_clears_the_buffer_and_the_same_one_does_not(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run boot")
    events = sh("cat trace")
    assert sh("echo function > current_tracer; cat trace") == events
    assert "schedule <-" in events
    assert "entries-in-buffer/entries-written: 0/0" in sh("echo nop > current_tracer; cat trace")


def test_the_first_use_expands_the_buffer(sh: Sh) -> None:
    assert sh("cat buffer_size_kb") == "7 (expanded: 1408)\n"
    sh("echo nop > current_tracer")
    assert sh("cat buffer_size_kb") == "1408\n"


@pytest.mark.parametrize("text", ["", "\n", "on", " 1", "1 ", "-1", "0x1"])
def test_tracing_on_takes_numbers_only(session: Session, text: str) -> None:
    assert refused(session, "tracing_on", text) == errno.EINVAL


def test_with_tracing_off_nothing_is_written(sh: Sh) -> None:
    # The guest calls schedule() to let the text change, too.
    sh("echo 0 > tracing_on; echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert "schedule <-" not in sh("cat tracing_on; run boot; cat trace")
    assert "schedule <-" in sh("echo 2 > tracing_on; run boot; cat trace")
    assert sh("cat tracing_on") == "1\n"


def test_only_cpus_in_the_mask_write(session: Session, sh: Sh) -> None:
    assert sh("cat tracing_cpumask") == "3\n"
    sh("echo 2 > tracing_cpumask; echo function > current_tracer; run syscalls")
    assert sh("cat per_cpu/cpu0/stats").startswith("entries: 0\n")
    assert not sh("cat per_cpu/cpu1/stats").startswith("entries: 0\n")
    # tracing_on does not undo the mask.
    sh("echo 0 > tracing_on; echo 1 > tracing_on; run boot")
    assert sh("cat per_cpu/cpu0/stats").startswith("entries: 0\n")
    assert refused(session, "tracing_cpumask", "x") == errno.EINVAL
    assert refused(session, "tracing_cpumask", "4") == errno.EOVERFLOW
    assert sh("cat tracing_cpumask") == "2\n"


def test_after_a_bug_ftrace_is_off(session: Session, sh: Sh) -> None:
    sh("poke schedule 9090909090; echo schedule > set_ftrace_filter")
    with pytest.raises(Exception, match="ftrace failed to modify"):
        session.boot.tracefs.write("current_tracer", "function\n")
    assert sh("cat current_tracer") == "nop\n"
    sh("echo function > current_tracer; run syscalls")  # nothing registers, as in Linux
    assert refused(session, "current_tracer", "function_graph\n") == errno.ENODEV
    assert sh("cat current_tracer") == "nop\n"
    for path in ("set_ftrace_filter", "set_ftrace_notrace", "available_filter_functions"):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.read(path)
        assert caught.value.errno == errno.ENODEV
    assert "FUNCTION TRACING IS CORRUPTED" in sh("cat trace")
    sh("reboot; echo function > current_tracer")


@pytest.mark.parametrize("tracer", ["function", "function_graph"])
def test_after_a_bug_nop_stops_the_tracer_that_was_on(
    session: Session, sh: Sh, tracer: str
) -> None:
    sh(f"echo vfs_read > set_ftrace_filter; echo {tracer} > current_tracer")
    sh("poke schedule 9090909090; run syscalls")
    with pytest.raises(FtraceBug):
        session.boot.tracefs.write("set_ftrace_filter", "schedule\n")
    before = sh("cat trace")
    assert "vfs_read" in before and sh("cat current_tracer") == f"{tracer}\n"
    sh("echo nop > current_tracer; run syscalls; echo x > trace_marker")
    assert sh("cat current_tracer") == "nop\n" and "entries-written: 1/1 " in sh("cat trace")
    sh("echo function > current_tracer; run syscalls")  # the sites are still patched
    assert ("vfs_read" in sh("cat trace")) == (tracer == "function")


def test_after_a_refused_switch_names_of_tasks_are_not_recorded(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise GuestError("refused")

    monkeypatch.setattr(session.boot.ftrace.text, "apply", refuse)
    with pytest.raises(GuestError, match="refused"):
        session.boot.tracefs.write("current_tracer", "function")
    flags = session.boot.machine.vcpus[0].local["buffer"]["flags"]
    assert not flags & RingBufferFlag.RECORD_CMD
