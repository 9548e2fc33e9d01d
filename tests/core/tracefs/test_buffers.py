"""Sizes and counts of the buffers."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.tracefs.tree import File

Sh = Callable[[str], str]


def stats(text: str) -> dict[str, str]:
    return {name: value.strip() for name, value in (s.split(":") for s in text.splitlines())}


def test_buffers_have_and_take_sizes(session: Session, sh: Sh) -> None:
    sizes = "cat buffer_size_kb buffer_total_size_kb per_cpu/cpu1/buffer_size_kb"
    assert sh(sizes).splitlines()[:2] == ["7 (expanded: 1408)", "14 (expanded: 2816)"]
    sh("echo 100 > buffer_size_kb")
    assert sh(sizes) == "100\n200\n100\n"
    sh("echo 50 > per_cpu/cpu1/buffer_size_kb")
    assert sh(sizes) == "X\n150\n50\n"
    for text, number in (("0", errno.EINVAL), ("x", errno.EINVAL), (str(2**50), errno.ENOMEM)):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.write("buffer_size_kb", text)
        assert caught.value.errno == number
    assert sh(sizes) == "X\n150\n50\n"


def test_stats_add_up(sh: Sh) -> None:
    sh("echo function > current_tracer; run boot; echo 0 > tracing_on")
    sh("run boot")  # so that no CPU is in the middle of an event
    for cpu in (0, 1):
        shown = stats(sh(f"cat per_cpu/cpu{cpu}/stats"))
        lines = sh(f"cat per_cpu/cpu{cpu}/trace").splitlines()
        count = sum(not line.startswith("#") for line in lines)
        assert int(shown["entries"]) == count > 0
        assert shown["overrun"] == shown["dropped events"] == shown["read events"] == "0"
        sh(f"cat per_cpu/cpu{cpu}/trace_pipe")
        assert stats(sh(f"cat per_cpu/cpu{cpu}/stats"))["read events"] == str(count)


def test_a_full_buffer_overwrites_or_drops(sh: Sh) -> None:
    sh("echo 8 > buffer_size_kb; echo function > current_tracer; run syscalls")
    shown = stats(sh("cat per_cpu/cpu0/stats"))
    assert int(shown["overrun"]) > 0 and shown["dropped events"] == "0"
    assert "buffer started ####" in sh("cat trace")
    sh("echo nooverwrite > trace_options; > trace; run syscalls")
    shown = stats(sh("cat per_cpu/cpu0/stats"))
    assert shown["overrun"] == "0" and int(shown["dropped events"]) > 0


def test_closing_free_buffer_frees_the_buffers(session: Session, sh: Sh) -> None:
    sh("echo function > current_tracer; run boot")
    with session.boot.tracefs.open("free_buffer", write=True) as handle:
        handle.write("x")
        assert sh("cat trace").count("\n") > 100
    assert sh("cat buffer_size_kb tracing_on") == "0\n1\n"
    pages = {
        region.size
        for region in session.boot.machine.memory.regions
        if region.name.startswith("ring_buffer")
    }
    assert pages == {2 * 4096}
    sh("echo 1 > options/disable_on_free; echo 20 > buffer_size_kb; echo > free_buffer")
    assert sh("cat buffer_size_kb tracing_on") == "0\n0\n"


def test_poll_waits_until_the_buffer_is_as_full_as_buffer_percent(session: Session, sh: Sh) -> None:
    assert sh("cat buffer_percent timestamp_mode") == "50\n[delta] absolute\n"
    sh("echo 16 > buffer_size_kb; echo hello > trace_marker")
    (cpu,) = (cpu for cpu in (0, 1) if "hello" in sh(f"cat per_cpu/cpu{cpu}/trace"))
    one, both = (session.boot.tracefs.node(f"{at}trace_pipe") for at in (f"per_cpu/cpu{cpu}/", ""))
    assert isinstance(one, File) and isinstance(both, File)
    assert both.ready and not one.ready  # one page of five
    sh("echo 20 > buffer_percent")
    assert one.ready
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("buffer_percent", "101")
