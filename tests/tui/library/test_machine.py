"""`dynftrace.open`: files, traces and views of a machine, and the notebook that shows them."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import dynftrace
from dynftrace.core.session.session import Session
from dynftrace.core.trace.export.records import comma_separated
from dynftrace.tui.library.machine import TracedMachine

NOTEBOOK = Path(__file__).parents[3] / "docs" / "notebook.ipynb"

TRACE = """echo schedule vfs_read > set_ftrace_filter
echo schedule > set_graph_function
echo 1 > events/syscalls/enable
echo 1 > events/sched/enable
echo {} > current_tracer
run syscalls"""


@pytest.fixture
def machine(session: Session) -> TracedMachine:
    return TracedMachine(session)


@pytest.mark.parametrize("tracer", ["function", "function_graph"])
def test_columns_have_what_the_exported_table_has(machine: TracedMachine, tracer: str) -> None:
    machine.sh(TRACE.format(tracer))
    trace = machine.trace()
    rows = list(
        csv.DictReader(io.StringIO("".join(comma_separated(machine.session.boot.array.text()))))
    )
    assert len(trace) == len(rows) > 20 and {row["event"] for row in rows} >= {
        "syscall",
        "sched_switch",
    }
    for name, column in trace.columns.items():
        absent = "-1" if name in ("depth", "duration_ns") else ""
        assert [str(each) for each in column.tolist()] == [row[name] or absent for row in rows]
    assert trace.array.dtype.names == tuple(rows[0])
    assert np.array_equal(trace.array["function"], trace["function"])
    assert trace.text == machine.files["trace"]


def test_task_switches_of_the_wakeup_tracer_have_their_names(machine: TracedMachine) -> None:
    machine.sh("echo wakeup > current_tracer; run syscalls; echo raw > trace_marker_raw")
    assert {"wakeup", "context_switch"} < set(machine.trace()["event"].tolist())
    machine.sh("echo nop > current_tracer; echo raw > trace_marker_raw")
    assert machine.trace()["event"].tolist() == ["raw_data"]


def test_files_are_a_mapping_whose_writes_can_be_undone(machine: TracedMachine) -> None:
    files = machine.files
    assert "current_tracer" in files and "events" not in files and "nosuch" not in files
    assert "events/syscalls/enable" in list(files) and len(files) > 100
    files["set_ftrace_filter"] = "schedule"
    files.append("set_ftrace_filter", "vfs_read")
    assert files["set_ftrace_filter"] == "schedule\nvfs_read\n"
    machine.sh("back")
    assert files["set_ftrace_filter"] == "schedule\n"
    for wrong in (lambda: files["nosuch"], lambda: files.append("nosuch", "1")):
        with pytest.raises(KeyError, match="nosuch"):
            wrong()
    with pytest.raises(dynftrace.DynftraceError, match=r"^current_tracer: Invalid argument"):
        files["current_tracer"] = "nosuch"
    with pytest.raises(dynftrace.DynftraceError, match=r"^events: Is a directory$"):
        files["events"]
    with pytest.raises(TypeError, match="cannot be deleted"):
        del files["current_tracer"]


def test_a_site_has_the_bytes_of_memory_and_draws_itself(machine: TracedMachine) -> None:
    machine.files["current_tracer"] = "function"
    site = machine.site("schedule")
    memory = machine.session.boot.machine.memory
    assert site.enabled and site.now == site.expected == memory.read(site.ip, 5) != site.compiled
    path = machine.path("schedule")
    assert path[0].address == site.ip and path[-1].name == "function_trace_call"
    assert next(row for row in machine.sites() if row.ip == site.ip).now == site.now
    console = Console(file=io.StringIO(), width=200)
    machine.run("syscalls")
    for shown in (site, path, machine.trace()):
        with console.capture() as drawn:
            console.print(shown)
        text = [each.rstrip() for each in drawn.get().splitlines()]
        assert text == str(shown).splitlines()
        html = shown._repr_html_()
        assert html == shown._repr_mimebundle_()["text/html"]
        plain = re.sub(r"<[^>]+>", "", html).replace("&lt;", "<").replace("&gt;", ">")
        assert [each.rstrip() for each in plain.replace("&amp;", "&").splitlines()] == text


def test_mistakes_are_one_sentence(machine: TracedMachine) -> None:
    with pytest.raises(dynftrace.CommandError, match="nosuch: command not found"):
        machine.sh("nosuch")
    with pytest.raises(dynftrace.DynftraceError, match="nosuch: no function of that name"):
        machine.site("nosuch")
    with pytest.raises(dynftrace.DynftraceError, match="nosuch"):
        machine.run("nosuch")
    with pytest.raises(dynftrace.DynftraceError, match="unknown screen"):
        machine.picture("nosuch")
    with pytest.raises(dynftrace.DynftraceError, match="valid numbers are 1-8"):
        dynftrace.open(cpus=9)
    with pytest.raises(AttributeError):
        _ = dynftrace.nosuch  # type: ignore[attr-defined]


def test_one_module_may_be_a_string() -> None:
    with dynftrace.open(modules="usbcore") as machine:
        assert machine.site("usb_alloc_dev").name == "usb_alloc_dev"


def test_a_picture_displays_nothing_by_itself(
    machine: TracedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def display(*arguments: object) -> None:
        raise AssertionError("displayed")

    plain = machine.picture(size="60x16").svg
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", display)
    assert machine.picture(size="60x16").svg == plain


def test_the_notebook_runs_and_shows_something_after_each_cell() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        assert isinstance(last, ast.Expr)
        exec(compile(ast.Module(body, []), "notebook", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
        shown.append(value)
    before, after, path, trace, tasks, calls, picture = shown
    assert not before.enabled and after.enabled and path[0].address == after.ip
    assert "schedule" in str(trace) and sum(tasks.values()) > 5
    assert calls["schedule"] > calls["vfs_read"] > 0
    svg = picture._repr_mimebundle_()["image/svg+xml"]
    # The styles of two pictures in one page do not mix.
    assert svg.startswith("<svg") and not re.search(r'["#.]terminal-', svg)
