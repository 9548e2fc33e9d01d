"""Sizes and counts of the buffers."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

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
