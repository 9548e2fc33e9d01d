"""events/ftrace/print: triggers of writes to trace_marker."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

Sh = Callable[[str], str]

TRIGGER = "events/ftrace/print/trigger"


def test_writes_are_counted_and_stop_tracing(sh: Sh) -> None:
    sh(f"echo hist:keys=common_pid > {TRIGGER}; echo traceoff:1 >> {TRIGGER}")
    sh("echo one > trace_marker; echo 1 > tracing_on; echo two > trace_marker")
    assert [*re.findall(r"write: (\w+)", sh("cat trace"))] == ["one", "two"]
    counted = re.findall(r"hitcount: +(\d+)", sh("cat events/ftrace/print/hist"))
    assert counted == ["1", "1"]
    assert "traceoff:count=0" in sh(f"cat {TRIGGER}")


def test_the_snapshot_has_the_text_that_took_it(sh: Sh) -> None:
    sh(f"echo snapshot:1 > {TRIGGER}; echo stacktrace:1 >> {TRIGGER}")
    sh("echo one > trace_marker; echo two > trace_marker")
    assert "write: one" in sh("cat snapshot") and "write: two" not in sh("cat snapshot")
    assert "write: two" in sh("cat trace") and "write: one" not in sh("cat trace")
    assert "<stack trace>" in sh("cat trace")


def test_an_instance_has_its_own(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; cd instances/x")
    sh(f"echo hist:keys=common_pid > {TRIGGER}; echo one > ../../trace_marker")
    assert "Hits: 0" in sh("cat events/ftrace/print/hist")
    sh("echo two > trace_marker; cd ../..")
    assert "Hits: 1" in sh("cat instances/x/events/ftrace/print/hist")
    sh("rmdir instances/x")


def test_a_text_without_a_line_end_gets_one(session: Session, sh: Sh) -> None:
    session.boot.tracefs.write("trace_marker", "one")
    session.boot.tracefs.write("trace_marker", "two\n")
    found = [row for row in sh("cat trace").splitlines() if "write:" in row]
    assert [row.split()[-1] for row in found] == ["one", "two"]


def test_the_other_events_of_the_tracers_have_no_triggers(session: Session, sh: Sh) -> None:
    assert sh("ls events/ftrace/print").split() == ["format", "hist", "id", "trigger"]
    assert sh("ls events/ftrace/function").split() == ["format", "hist", "id"]
    assert sh("ls events/ftrace/kernel_stack").split() == ["format", "hist"]
    with pytest.raises(TracefsError):
        session.boot.tracefs.write(TRIGGER, "hist:keys=buf")
