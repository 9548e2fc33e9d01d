"""Pages for readers: a CPU without events has none."""

from __future__ import annotations

from dynftrace.core.trace.buffer.rawpages import unread_pages

from ....support.user import executor, opened


def test_a_cpu_that_recorded_nothing_has_no_pages() -> None:
    session = opened()
    executor(session)("echo 1 > tracing_cpumask; echo function > current_tracer; run syscalls")
    ring = session.boot.array.ring
    found = [unread_pages(ring.layout, ring.pages(cpu), ring.head(cpu)[1]) for cpu in ring.cpus]
    assert len(found[0]) > 1 and found[1].shape == (0, 4096)
