"""Triggers and histograms of events, executed by the guest."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ....support.user import User

SWITCH = "events/sched/sched_switch"


def shown(user: User, name: str) -> list[str]:
    """Return the rows of one event."""
    return [line for line in user("cat trace").splitlines() if f" {name}: " in line]


def test_traceoff_stops_after_the_event_that_meets_its_condition() -> None:
    user = User("x86_64")
    user(f"echo 1 > events/sched/enable; echo 'traceoff:1 if prev_pid > 13' > {SWITCH}/trigger")
    user("run syscalls")
    rows = shown(user, "sched_switch")
    assert user("cat tracing_on") == "0\n"
    assert [int(re.findall(r"prev_pid=(\d+)", row)[0]) > 13 for row in rows] == [
        *[False] * (len(rows) - 1),
        True,
    ]
    assert user("cat trace").splitlines()[-1] == rows[-1]
    assert user(f"cat {SWITCH}/trigger") == "traceoff:count=0 if prev_pid > 13\n"
    user("echo 1 > tracing_on; run syscalls")
    assert user("cat tracing_on") == "1\n"
    user(f"echo '!traceoff' > {SWITCH}/trigger")
    assert user(f"cat {SWITCH}/trigger").startswith("# Available triggers:\n")


@pytest.mark.parametrize("arch", ["x86_64", "mips", "ppc64", "arm64"])
def test_stacks_snapshots_and_other_events(arch: str) -> None:
    user = User(arch)
    user("echo stacktrace:2 > events/sched/sched_process_fork/trigger")
    user("echo enable_event:irq:irq_handler_exit:1 > events/sched/sched_process_exit/trigger")
    user("echo snapshot:1 > events/sched/sched_process_exec/trigger")
    assert user("cat events/irq/irq_handler_exit/enable") == "0*\n"
    user("echo 1 > events/sched/sched_process_fork/enable; run syscalls")
    text = user("cat trace") + user("cat snapshot")
    assert text.count("<stack trace>") == 2 and text.count(" => ") >= 6
    assert "kernel_clone" in text.split("<stack trace>")[1]
    # The first exit switched them on, and they stay on.
    assert user("cat events/irq/irq_handler_exit/enable") == "1*\n"
    rows = text.splitlines()
    assert any("irq_handler_exit: " in row for row in rows)
    assert "allocated" in user("cat snapshot") or "sched_process_fork" in user("cat snapshot")
    user("echo '!enable_event:irq:irq_handler_exit' > events/sched/sched_process_exit/trigger")
    assert user("cat events/irq/irq_handler_exit/enable") == "1\n"


def test_what_the_kernel_refuses() -> None:
    user = User("x86_64")
    path = "events/irq/softirq_entry/trigger"
    for wrong in ("nosuch", "traceoff:x", "traceoff if", "traceoff if nosuch == 1", "", "hist"):
        assert "Invalid argument" in user.refused(f"echo '{wrong}' > {path}")
    for wrong in ("hist:vals=vec", "hist:keys=nosuch", "hist:keys=vec.nosuch", "hist:keys=vec:x"):
        assert user.refused(f"echo '{wrong}' > {path}")
    assert "Invalid argument" in user.refused(f"echo enable_event:irq:nosuch > {path}")
    user(f"echo traceoff > {path}")
    assert "exists" in user.refused(f"echo traceon > {path}")
    assert "exists" in user.refused(f"echo traceoff:3 > {path}")
    user(f"echo enable_event:sched:sched_switch > {path}")
    assert "exists" in user.refused(f"echo disable_event:sched:sched_switch > {path}")
    assert user(f"cat {path}") == "enable_event:sched:sched_switch:unlimited\ntraceoff:unlimited\n"
    user(f"echo '!enable_event:sched:sched_switch' > {path}; echo '!traceoff' > {path}")
    assert user("cat events/irq/enable events/sched/enable") == "0\n0\n"


@pytest.mark.parametrize("arch", ["x86_64", "mips", "ppc64", "arm64"])
def test_a_histogram_counts_what_the_trace_shows(arch: str) -> None:
    user = User(arch)
    path = "events/kmem/kmem_cache_alloc"
    keys = "hist:keys=common_pid,bytes_req.log2:vals=bytes_alloc:sort=bytes_alloc.descending"
    user(f"echo '{keys} if bytes_req > 32' > {path}/trigger; echo 1 > {path}/enable")
    user("run syscalls; echo 0 > tracing_on")
    hits: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for row in shown(user, "kmem_cache_alloc"):
        asked, got = (int(re.findall(rf"{name}=(\d+)", row)[0]) for name in ("req", "alloc"))
        if asked > 32:
            where = int(re.findall(r"-(\d+) +\[", row)[0]), (asked - 1).bit_length()
            hits[where] += 1
            sums[where] += got
    text = user(f"cat {path}/hist")
    pattern = (
        r"{ common_pid: +(\d+), bytes_req: ~ 2\^(\d+) +} hitcount: +(\d+)  bytes_alloc: +(\d+)"
    )
    found = [tuple(map(int, row)) for row in re.findall(pattern, text)]
    assert {(pid, log): (hit, total) for pid, log, hit, total in found} == {
        where: (hits[where], sums[where]) for where in hits
    }
    assert [row[3] for row in found] == sorted(sums.values(), reverse=True)
    assert f"    Hits: {hits.total()}\n    Entries: {len(hits)}\n    Dropped: 0\n" in text


def test_a_histogram_pauses_clears_and_overflows() -> None:
    user = User("x86_64")
    path = "events/kmem/kfree"
    spec = "hist:keys=ptr,common_timestamp:size=128"
    user(f"echo '{spec}' > {path}/trigger; run syscalls 12")
    text = user(f"cat {path}/hist")
    dropped = int(text.rsplit("Dropped: ")[1])
    assert "Entries: 128\n" in text and dropped > 0
    user(f"echo '{spec}:pause' >> {path}/trigger; run syscalls")
    assert "[paused]" in user(f"cat {path}/trigger")
    assert user(f"cat {path}/hist") == text.replace("[active]", "[paused]")
    user(f"echo '{spec}:clear' >> {path}/trigger")
    assert "Hits: 0\n" in user(f"cat {path}/hist")
    user(f"echo '!{spec}' >> {path}/trigger")
    assert user(f"cat {path}/hist") == "" and user(f"cat {path}/enable") == "0\n"


def test_a_checkpoint_keeps_filters_and_triggers() -> None:
    user = User("x86_64")
    user(f"echo 'prev_pid > 2' > {SWITCH}/filter; echo 1 > {SWITCH}/enable")
    user(f"echo 'hist:keys=prev_pid' > {SWITCH}/trigger; run syscalls")
    shown = f"cat {SWITCH}/filter {SWITCH}/trigger {SWITCH}/hist {SWITCH}/enable"
    before, restore = user(shown), user.session.save()
    user(f"echo 0 > {SWITCH}/filter; echo '!hist:keys=prev_pid' > {SWITCH}/trigger")
    user(f"echo 'x' > trace_marker; run syscalls; echo 0 > {SWITCH}/enable")
    restore()
    assert user(shown) == before and "Hits: " in before
    user("run syscalls")
    assert user(f"cat {SWITCH}/hist") != ""


def test_named_histograms_count_together_and_can_be_paused_by_an_event() -> None:
    user = User("x86_64")
    fork, leave = (f"events/sched/sched_process_{what}" for what in ("fork", "exit"))
    user(f"echo 'hist:name=both:keys=common_pid' > {fork}/trigger")
    user(f"echo 'hist:name=both:keys=common_pid' > {leave}/trigger")
    assert "Named hist trigger" in user.refused(
        f"echo 'hist:name=both:keys=CPU' >> {leave}/trigger"
    )
    user(f"echo disable_hist:sched:sched_process_exit:1 >> {leave}/trigger")
    user("run syscalls")
    # The newest trigger comes first: the histogram is paused by the first exit, before it counts.
    paused = user(f"cat {leave}/hist")
    assert "[paused]" in paused
    assert paused.replace("[paused]", "[active]") == user(f"cat {fork}/hist")
    user(f"echo '!disable_hist:sched:sched_process_exit' >> {leave}/trigger")
    user(f"echo '!hist:name=both:keys=common_pid' > {leave}/trigger")
    assert user(f"cat {leave}/hist") == "" and "Hits: " in user(f"cat {fork}/hist")
