"""Hits in the function list: from the trace or the profiler, updated only if they change."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.explore.function_table import FunctionTable
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.view import IN_TRACE, PROFILED

from ...support.user import opened
from ..console.test_console_session import console, do


def counted(driver: SessionDriver) -> tuple[str, dict[str, int]]:
    """Return the list's title, and hits by name."""
    table = driver.view().functions
    assert isinstance(table, FunctionTable)
    rows = [table.row(index) for index in range(len(table))]
    return table.counted, {row.name.lstrip("."): row.hits for row in rows if row.hits}


@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips", "arm64"])
def test_hits_agree_with_the_trace(arch: str) -> None:
    session = opened(arch)
    driver = SessionDriver(session)
    assert counted(driver) == (IN_TRACE, {})
    driver.execute("echo function > current_tracer")
    driver.execute("run syscalls")
    driver.execute("echo 0 > tracing_on")
    text = session.boot.tracefs.read("trace")
    named = Counter(name.lstrip(".") for name in re.findall(r": (\S+) <-", text))
    assert counted(driver) == (IN_TRACE, dict(named)) and len(named) > 20
    driver.execute("echo > trace")
    assert counted(driver) == (IN_TRACE, {})


def test_calls_of_a_graph_are_counted_once() -> None:
    session = Session.open(arches.load("x86_64"))
    driver = SessionDriver(session)
    driver.execute("echo 'vfs_*' > set_ftrace_filter")
    driver.execute("echo function_graph > current_tracer; run syscalls; echo 0 > tracing_on")
    text = session.boot.tracefs.read("trace")
    named = Counter(re.findall(r"\| +(vfs_\w+)\(\)[ ;]", text))
    assert counted(driver) == (IN_TRACE, dict(named)) and named["vfs_read"] > 0


@pytest.mark.parametrize("arch", ["x86_64", "ppc32", "x86_64-2008"])
def test_hits_agree_with_the_profiler(arch: str) -> None:
    session = opened(arch)
    driver = SessionDriver(session)
    driver.execute("sleep 2")
    assert driver.execute("echo 1 > function_profile_enabled").status == 0
    driver.execute("run syscalls 3")
    total: Counter[str] = Counter()
    for cpu in range(2):
        for name, count in re.findall(
            r"^  (\S+) +(\d+)", session.boot.tracefs.read(f"trace_stat/function{cpu}"), re.M
        ):
            total[name] += int(count)
    title, shown = counted(driver)
    assert title == PROFILED
    assert {name[:30]: count for name, count in shown.items()} == dict(total)
    assert len(total) > 20
    driver.execute("echo 0 > function_profile_enabled")
    assert counted(driver) == (IN_TRACE, {})


def test_without_new_events_nothing_is_recounted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = SessionDriver(session)
    driver.execute("echo function > current_tracer")
    # An event that a vCPU is writing still gets into the buffer: the sleep lets it end.
    driver.execute("run syscalls; echo 0 > tracing_on; sleep 0.01")
    first = driver.view().functions
    calls: list[object] = []
    entries = EventTable.entries
    monkeypatch.setattr(
        EventTable, "entries", lambda table: (calls.append(table), entries(table))[1]
    )
    assert driver.view().functions is first and not calls
    # With tracing on, the tasks that stop the machine for the change would be traced.
    driver.execute("echo schedule > set_ftrace_filter; echo 1 > tracing_on")
    changed = driver.view().functions
    assert changed is not first and not calls
    driver.execute("run syscalls")
    driver.view()
    driver.view()
    assert len(calls) == 1
    driver.execute("echo nop > current_tracer; echo 1 > function_profile_enabled; run syscalls")
    again = driver.view().functions
    assert driver.view().functions is again


def test_hits_are_assigned_only_to_functions(session: Session) -> None:
    driver = SessionDriver(session)
    driver.view()
    index = driver._index
    assert index is not None
    ip = int(index.ips[5])
    addresses = np.array([ip, 1, 2**64 - 1, ip], np.uint64)
    counts = index.sum_by_function(addresses, np.array([2, 7, 9, 3]))
    assert counts[5] == 5 and counts.sum() == 5


async def test_the_cursor_keeps_its_function_while_the_guest_runs(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "site schedule", "echo function > current_tracer")
        rows = app.main.functions.rows
        ip = rows.ip
        for order in ("hits", "state"):
            rows.order = order
            app.runner.run()
            tables = set[int]()
            while len(tables) < 4:  # counts keep growing
                await pilot.pause(0.02)
                tables.add(id(app.view.functions))
                assert rows.ip == ip and rows.cursor_in_sight
                index = rows.current()
                assert index is not None and rows.functions is not None
                assert rows.functions.row(index).name == "schedule"
            app.runner.pause()
            await settle(pilot)
