"""`flame` and `hist` agree with the exported trace."""

from __future__ import annotations

import re

import pytest

from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.export.records import records
from dynftrace.core.trace.export.stacks import folded

from ...support.user import executor, opened


def test_the_tree_and_the_histogram_have_all_calls_of_the_trace() -> None:
    session = opened("ppc64", cpus=1)
    sh = executor(session)
    sh("echo function_graph > current_tracer; run syscalls")
    text = session.boot.array.text()
    busy = [line.rpartition(" ")[2] for line in folded(text) if not line.startswith("<idle>")]
    head, first, *rows = sh("flame 0").splitlines()
    assert head.split() == ["total", "own", "calls"]
    assert first.endswith(f"all tasks, {sum(map(int, busy)) / 1000:,.3f} us without idle tasks")
    own = [float(re.findall(r"([\d.]+)%", row)[1]) for row in rows]
    assert sum(own) == pytest.approx(100, abs=0.05 * len(rows))
    few = sh("flame 5").splitlines()
    assert 5 < len(few) < len(rows) / 3 and few[1] == first

    done = [each for each in records(text) if each["event"] == "funcgraph_exit"]
    times = sorted(int(each["duration_ns"]) for each in done if each["function"] == ".vfs_read")
    head, *buckets = sh("hist vfs_read").splitlines()
    assert head.startswith(f"vfs_read  {len(times)} calls, {times[0] / 1000:.3f} to ")
    counted = 0
    for bucket in buckets:
        low, high, count = re.findall(r"[\d.]+", bucket.replace(",", ""))[:3]
        inside = [t for t in times if float(low) <= t / 1000 < float(high)]
        assert len(inside) == int(count)
        counted += len(inside)
    assert counted == len(times)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("flame", "flame: no call has been timed: first echo function_graph > current_tracer\n"),
        ("flame x", "flame: no call has been timed: first echo function_graph > current_tracer\n"),
        ("flame nan", "flame: PERCENT must be 0 to 100, not nan\nusage: flame [FUNC] [PERCENT]\n"),
        ("hist", "hist: missing argument\nusage: hist FUNC\n"),
    ],
)
def test_a_tree_or_histogram_that_cannot_be_drawn_is_one_sentence(line: str, error: str) -> None:
    assert Shell(opened()).execute(line).error == error
