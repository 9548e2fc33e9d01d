"""What other tools read agrees with the trace, event by event."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter

import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.trace.export.records import comma_separated, json_lines
from dynftrace.core.trace.export.spans import spans_of
from dynftrace.core.trace.export.stacks import folded, speedscope
from dynftrace.core.trace.export.timeline import CPUS, TASKS, timeline
from dynftrace.core.trace.text.tracetext import TraceText

from ....support.user import executor, opened


def traced(commands: str) -> TraceText:
    session = opened()
    executor(session)(commands)
    return session.boot.array.text()


@pytest.fixture(scope="module")
def graph() -> TraceText:
    return traced("echo function_graph > current_tracer; run syscalls; echo mark > trace_marker")


def expected_stacks(text: TraceText) -> Counter[tuple[str, ...]]:
    """Return own ns by chain, found with one stack of frames for each task."""
    table, functions = text.table, text.formatter.labels.functions
    known = text.context.cmdlines or {}
    frames: dict[tuple[int, int], list[tuple[str, int]]] = {}
    found: Counter[tuple[str, ...]] = Counter()
    for event in table.events:
        pid, cpu = int(event["pid"]), int(event["cpu"])
        task = f"{known[pid]}-{pid}" if pid else f"<idle>-{cpu}"
        stack = frames.setdefault((pid, cpu if pid == 0 else -1), [])
        if event["type"] == TraceType.GRAPH_ENT:
            del stack[int(event["parent"]) :]
            stack.append((functions[event["ip"]], 0))
        elif event["type"] == TraceType.GRAPH_RET:
            done = table.details.returns[event["parent"]]
            depth, took = int(done["depth"]), int(done["rettime"]) - int(done["calltime"])
            if len(stack) != depth + 1:
                continue  # its call, or one around it, was before the trace
            chain = (task, *(name for name, _ in stack))
            found[chain] += took - stack.pop()[1]
            if stack:
                name, inner = stack.pop()
                stack.append((name, inner + took))
    return found


def test_folded_stacks_agree_with_a_stack_of_frames(graph: TraceText) -> None:
    found = Counter[tuple[str, ...]]()
    for line in folded(graph):
        chain, _, ns = line.rpartition(" ")
        found[tuple(chain.split(";"))] += int(ns)
    expected = expected_stacks(graph)
    assert len(expected) > 500
    wrong = {chain for chain in expected if found[chain] != expected[chain]}
    assert not wrong
    # Calls from before the trace are in the export only: their inner calls have no caller.
    assert sum(found.values()) >= sum(expected.values())


def test_speedscope_has_the_same_times(graph: TraceText) -> None:
    document = json.loads("".join(speedscope(graph, "x")))
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found = Counter[tuple[str, ...]]()
    for profile in document["profiles"]:
        assert profile["endValue"] == sum(profile["weights"])
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
            found[(profile["name"], *(names[frame] for frame in sample))] += weight
    lines = (line.rpartition(" ") for line in folded(graph))
    assert found == Counter({tuple(chain.split(";")): int(ns) for chain, _, ns in lines})


def test_a_timeline_has_nested_slices_and_every_other_event(graph: TraceText) -> None:
    entries = json.loads("".join(timeline(graph)))["traceEvents"]
    slices = [each for each in entries if each["ph"] == "X" and each["pid"] == TASKS]
    kinds = Counter(graph.table.events["type"].tolist())
    assert len(slices) == kinds[TraceType.GRAPH_RET]
    spans = spans_of(graph.table)
    assert (spans.open.sum() > 0) and len(spans.spans) - spans.open.sum() == len(slices)
    inner = spans.spans[spans.spans["caller"] >= 0]
    callers = spans.spans[inner["caller"]]
    assert len(inner) > 1000 and (callers["start"] <= inner["start"]).all()
    assert (callers["depth"] + 1 == inner["depth"]).all()
    marks = [each for each in entries if each["ph"] == "i"]
    assert [each["name"] for each in marks] == ["tracing_mark_write: mark"]
    running = [each for each in entries if each["ph"] == "X" and each["pid"] == CPUS]
    names = {each["tid"]: each["args"]["name"] for each in entries if each["name"] == "thread_name"}
    assert {names[each["tid"]] for each in running} == {"CPU 0", "CPU 1"}
    for cpu in ("CPU 0", "CPU 1"):
        own = [each for each in running if names[each["tid"]] == cpu]
        ends = [each["ts"] + each["dur"] for each in own]
        assert all(end <= later["ts"] + 1e-6 for end, later in zip(ends, own[1:], strict=False))


def test_no_number_of_a_thread_is_used_twice() -> None:
    # Perfetto takes a thread of one process for one of the same number in another.
    entries = json.loads("".join(timeline(traced("echo 1 > events/enable; run syscalls"))))
    threads = [each["tid"] for each in entries["traceEvents"] if each["name"] == "thread_name"]
    assert len(threads) == len(set(threads)) and not {TASKS, CPUS} & set(threads)
    assert min(TASKS, CPUS, *(each for each in threads if each > 1000)) > 1 << 22


def test_events_of_the_wakeup_tracer_and_raw_markers_have_the_kernels_names() -> None:
    text = traced("echo wakeup > current_tracer; run syscalls")
    kinds = [json.loads(line)["event"] for line in json_lines(text)]
    assert {"wakeup", "context_switch"} < set(kinds) and "unknown" not in kinds
    text = traced("echo nop > current_tracer; echo raw > trace_marker_raw")
    assert [json.loads(line)["event"] for line in json_lines(text)] == ["raw_data"]


def test_records_have_the_fields_of_each_event() -> None:
    text = traced("echo 1 > events/syscalls/enable; echo function > current_tracer; run syscalls")
    lines = [json.loads(line) for line in json_lines(text)]
    rows = list(csv.DictReader(io.StringIO("".join(comma_separated(text)))))
    assert len(rows) == len(lines) == len(text.table) > 1000
    for line, row in zip(lines, rows, strict=True):
        assert {key: str(value) for key, value in line.items()} == {
            key: value for key, value in row.items() if value
        }
    calls = [line for line in lines if line["event"] == "function"]
    assert {"function", "caller", "time_ns"} < set(calls[0])
    assert any(line["text"].startswith("sys_getpid") for line in lines if "text" in line)
