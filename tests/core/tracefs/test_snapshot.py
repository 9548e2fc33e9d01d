"""snapshot: the text of the file, and the swap of both buffers."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.trace.buffer.rawpages import unread_pages

Sh = Callable[[str], str]

HELP = """\
# Snapshot commands:
# echo 0 > snapshot : Clears and frees snapshot buffer
# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.
#                      Takes a snapshot of the main buffer.
# echo 2 > snapshot : Clears snapshot buffer (but does not allocate or free)
#                      (Doesn't have to be '2' works with any number that
#                       is not a '0' or '1')
"""


def said(tracer: str, state: str) -> str:
    return f"# tracer: {tracer}\n#\n#\n# * Snapshot is {state} *\n#\n{HELP}"


def trace(sh: Sh) -> str:
    sh("echo vfs_write > set_ftrace_filter; echo function > current_tracer; run syscalls")
    sh("echo 0 > tracing_on")
    text = sh("cat trace")
    assert text.count("\n") > 15
    return text


def test_an_empty_snapshot_shows_help(sh: Sh) -> None:
    assert sh("cat snapshot") == said("nop", "freed")
    assert sh("echo 2 > snapshot; cat snapshot") == said("nop", "freed")
    assert sh("echo 1 > snapshot; cat snapshot") == said("nop", "allocated")
    assert sh("echo 0 > snapshot; cat snapshot") == said("nop", "freed")


def test_a_swap_exchanges_everything_visible(session: Session, sh: Sh) -> None:
    first = trace(sh)
    stats = sh("cat per_cpu/cpu0/stats per_cpu/cpu1/stats")
    sh("echo 1 > snapshot")
    assert sh("cat snapshot") == first and sh("cat snapshot") == first
    assert "0/0 " in sh("cat trace") and "".join(session.boot.array.follow().file()) == sh(
        "cat trace"
    )
    sh("echo 1 > tracing_on; run syscalls; echo 0 > tracing_on")
    second = sh("cat trace")
    sh("echo 1 > snapshot")
    assert (sh("cat trace"), sh("cat snapshot")) == (first, second)
    assert "".join(session.boot.array.follow().file()) == first
    before, after = (
        [line for line in text.splitlines() if not line.startswith("now")]
        for text in (stats, sh("cat per_cpu/cpu0/stats per_cpu/cpu1/stats"))
    )
    assert before == after


def test_the_guest_appends_to_the_swapped_in_buffer(session: Session, sh: Sh) -> None:
    first = trace(sh)
    sh("echo 1 > snapshot; echo 1 > snapshot")
    sh("echo 1 > tracing_on; run syscalls; echo 0 > tracing_on")
    lines = [line for line in first.splitlines() if not line.startswith("#")]
    now = [line for line in sh("cat trace").splitlines() if not line.startswith("#")]
    assert now[: len(lines)] == lines and len(now) > len(lines)
    events = session.boot.ring.events()
    assert not events.damaged and session.boot.ring.lost(len(events)) == 0


def test_consumed_events_stay_consumed(session: Session, sh: Sh) -> None:
    trace(sh)
    session.boot.ring.consume(limit=5)
    left = sh("cat trace")
    sh("echo 1 > snapshot")
    assert sh("cat snapshot") == left
    sh("echo 1 > snapshot")
    assert sh("cat trace") == left and sh("cat trace_pipe").count("\n") == left.count("\n") - 12
    assert session.boot.ring.in_buffer() == 0


def test_clearing_one_buffer_keeps_the_other(sh: Sh) -> None:
    text = trace(sh)
    sh("echo 1 > snapshot; echo > trace")
    assert sh("cat snapshot") == text
    sh("echo 7 > snapshot")
    assert sh("cat snapshot") == said("function", "allocated")
    sh("echo 1 > snapshot; echo 1 > tracing_on; run syscalls; echo 0 > tracing_on")
    kept = sh("cat trace")
    sh("echo 2 > snapshot; echo 0 > snapshot")
    assert sh("cat trace") == kept


def test_changing_the_clock_clears_the_snapshot(sh: Sh) -> None:
    trace(sh)
    sh("echo 1 > snapshot; echo counter > trace_clock")
    assert sh("cat snapshot") == said("function", "allocated")


def test_a_smaller_buffer_keeps_the_newest(session: Session, sh: Sh) -> None:
    sh("echo function > current_tracer; run syscalls; run syscalls; echo 0 > tracing_on")
    assert session.boot.ring.used_pages(0) > 2
    sh("echo 1 > snapshot")
    full = [line for line in sh("cat snapshot").splitlines() if not line.startswith("#")]
    sh("echo 8 > buffer_size_kb; echo 1 > snapshot")
    events = session.boot.ring.events()
    assert 0 < len(events) < len(full) and session.boot.ring.lost(len(events)) == len(full) - len(
        events
    )
    assert sh("cat trace").splitlines()[-1] == full[-1]


@pytest.mark.parametrize(("text", "code"), [("x", errno.EINVAL), (f"{1 << 64}", errno.ERANGE)])
def test_invalid_writes_are_refused(session: Session, text: str, code: int) -> None:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write("snapshot", text)
    assert caught.value.errno == code


def test_a_snapshot_command_allocates_the_buffer(session: Session, sh: Sh) -> None:
    sh("echo vfs_write:snapshot:2 >> set_ftrace_filter")
    assert sh("cat snapshot") == said("nop", "allocated")
    sh("echo sys_unlink > set_ftrace_filter; echo function > current_tracer; run syscalls")
    assert sh("cat set_ftrace_filter") == "sys_unlink\nvfs_write:snapshot:count=0\n"
    assert session.boot.array.snapshot.allocated
    session.reboot()
    assert session.boot.tracefs.read("snapshot") == said("nop", "freed")


def test_one_cpu_can_be_swapped_alone(session: Session, sh: Sh) -> None:
    text = trace(sh)
    of_one = [sh(f"cat per_cpu/cpu{cpu}/trace") for cpu in (0, 1)]
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write("per_cpu/cpu1/snapshot", "0")
    assert caught.value.errno == errno.EINVAL
    assert "for this cpu" in sh("cat per_cpu/cpu1/snapshot")
    sh("echo 1 > per_cpu/cpu1/snapshot")
    assert body(sh("cat per_cpu/cpu0/trace")) == body(of_one[0])
    assert body(sh("cat per_cpu/cpu1/trace")) == []
    assert body(sh("cat per_cpu/cpu1/snapshot")) == body(of_one[1])
    assert body(sh("cat snapshot")) == body(of_one[1])
    sh("echo 1 > snapshot; echo 2 > per_cpu/cpu1/snapshot")
    assert body(sh("cat snapshot")) == body(of_one[0])
    assert sorted(body(text)) == sorted([*body(of_one[0]), *body(of_one[1])])


def test_the_pages_of_a_snapshot_are_those_of_the_buffer(session: Session, sh: Sh) -> None:
    trace(sh)
    tracefs, ring = session.boot.tracefs, session.boot.ring
    wanted = [unread_pages(ring.layout, ring.pages(cpu)[:1], 0).tobytes() for cpu in (0, 1)]
    sh("echo 1 > snapshot")
    taken = [tracefs.read(f"per_cpu/cpu{cpu}/snapshot_raw") for cpu in (0, 1)]
    assert [each.encode("utf-8", "surrogateescape") for each in taken] == wanted
    assert [tracefs.read(f"per_cpu/cpu{cpu}/snapshot_raw") for cpu in (0, 1)] == ["", ""]


def body(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]
