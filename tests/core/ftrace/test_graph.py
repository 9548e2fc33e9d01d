"""The graph tracer on and off: its slot, its sites, and other users."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import FtraceBug, TracefsError
from dynftrace.core.ftrace.entry import GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER
from dynftrace.core.ftrace.graph import GRAPH_STUB, FunctionGraph
from dynftrace.core.ftrace.ops import FtraceHash
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.booted import Booted, boot
from ...support.ports import FAMILIES

MS = 1_000_000


@pytest.fixture
def guest() -> Booted:
    return boot()


def tracer(guest: Booted) -> FunctionGraph:
    return FunctionGraph(guest.machine, guest.ftrace, guest.address(GRAPH_STUB))


def slot(guest: Booted) -> int | None:
    """Return what the graph slot calls, or None if it is a nop."""
    at = guest.address(GRAPH_CALL)
    return guest.port.call_target(at, guest.machine.memory.read(at, 5))


def target_of(guest: Booted, name: str) -> int | None:
    """Return what the site of a function calls; None if it calls nothing."""
    return guest.port.call_target(guest.address(name), guest.site(name))


def code(guest: Booted) -> bytes:
    """Return the current entry code, without the word that points to the ops."""
    entry = guest.ftrace.entry
    now = bytearray(guest.machine.memory.read(entry.address, len(entry.code)))
    at, size = entry["function_trace_op"] - entry.address, guest.port.facts.pointer_size
    now[at : at + size] = bytes(size)
    return bytes(now)


@pytest.mark.parametrize("arch", arches.names())
def test_the_slot_calls_the_graph_caller_while_it_is_on(arch: str) -> None:
    guest = boot(arch)
    graph, before, at_boot = tracer(guest), code(guest), guest.text()
    assert graph.available and slot(guest) is None
    graph.start()
    assert slot(guest) == guest.address(GRAPH_CALLER)
    guest.machine.run(5 * MS)
    graph.stop()
    assert slot(guest) is None
    assert code(guest) == before
    # ftraced goes on turning new sites into nops.
    assert guest.text() == at_boot or guest.ftrace.ftraced is not None
    assert not guest.ftrace.records.users.any()
    guest.machine.run(5 * MS)
    assert not guest.machine.oopses


def test_a_poked_slot_is_a_bug_and_nothing_is_written(guest: Booted) -> None:
    graph, at = tracer(guest), guest.address(GRAPH_CALL)
    guest.machine.memory.write(at, b"\x90")
    before, text = code(guest), guest.text()
    with pytest.raises(FtraceBug) as bug:
        graph.start()
    assert bug.value.ip == at
    assert (code(guest), guest.text(), graph.on) == (before, text, False)
    with pytest.raises(TracefsError):
        graph.start()


def test_a_slot_poked_while_on_is_a_bug_at_switching_off(guest: Booted) -> None:
    graph, at = tracer(guest), guest.address(GRAPH_CALL)
    graph.start()
    guest.machine.memory.write(at + 1, b"\0")
    with pytest.raises(FtraceBug):
        graph.stop()
    assert graph.on and guest.ftrace.disabled
    assert guest.machine.memory.read(at, 2) == b"\xe9\0"
    assert target_of(guest, "kfree") == guest.address("ftrace_caller")


def test_the_graph_tracer_and_another_user_have_their_own_sites(guest: Booted) -> None:
    graph, other = tracer(guest), guest.counter()
    graph.ops.filter_hash, other.filter_hash = guest.filter("kfree"), guest.filter("schedule")
    before = guest.text()
    guest.ftrace.register(other)
    graph.start()
    calls = [target_of(guest, name) for name in ("kfree", "schedule")]
    trampolines = guest.ftrace.trampolines
    assert trampolines is not None
    assert calls == [each.address for each in trampolines.of([graph.ops, other])]
    guest.machine.run(5 * MS)
    assert guest.counted() > 0
    graph.set_hashes(FtraceHash(), guest.filter("schedule"))
    assert guest.ftrace.records.users.max() == 1
    guest.ftrace.unregister(other)
    assert target_of(guest, "schedule") is None
    graph.stop()
    assert guest.text() == before


@pytest.mark.parametrize("gone", [GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER])
def test_entry_code_without_the_slot_has_no_graph_tracer(gone: str) -> None:
    session = Session.open(arches.load(arches.DEFAULT))  # not shared: its entry code changes
    symbols = {n: a for n, a in session.boot.ftrace.entry.symbols.items() if n != gone}
    object.__setattr__(session.boot.ftrace.entry, "symbols", symbols)
    shell = Shell(session)
    assert "function_graph" not in shell.execute("cat available_tracers").output
    refused = shell.execute("echo function_graph > current_tracer")
    assert "Invalid argument" in refused.error and refused.status


step = st.one_of(
    st.tuples(st.just("switch"), st.booleans()),
    st.tuples(st.just("filter"), st.sets(st.integers(0, 10**6), max_size=6)),
    st.tuples(st.just("user"), st.booleans()),
    st.tuples(st.just("run"), st.integers(1, 3 * MS)),
)


@pytest.mark.parametrize("arch", FAMILIES)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, max_size=12))
def test_after_any_steps_switching_off_restores_the_text(
    arch: str, steps: list[tuple[str, object]]
) -> None:
    guest = boot(arch)
    graph, other, before = tracer(guest), guest.counter(), code(guest)
    for name, value in [*steps, ("switch", False), ("user", False)]:
        if name == "switch" and graph.on != value:
            (graph.start if value else graph.stop)()
        elif name == "filter" and isinstance(value, set):
            ips = guest.ftrace.records.table["ip"]
            chosen = np.array([ips[row % len(ips)] for row in sorted(value) if len(ips)], np.uint64)
            graph.set_hashes(FtraceHash.of(chosen), FtraceHash())
        elif name == "user" and (other in guest.ftrace.ops) != value:
            (guest.ftrace.register if value else guest.ftrace.unregister)(other)
        elif name == "run" and isinstance(value, int):
            guest.machine.run(value)
    assert code(guest) == before
    assert not guest.ftrace.records.users.any()
    guest.machine.run(MS)
    assert not guest.machine.oopses
