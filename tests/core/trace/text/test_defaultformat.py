"""Lines and headers exactly as a 6.1 kernel prints them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynftrace import arches
from dynftrace.core import abi
from dynftrace.core.errors import UsageError
from dynftrace.core.events.fprobe import parse
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.subbuffer import PageFormat
from dynftrace.core.trace.buffer.timetext import exact_time, latest_time, time_text
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.columntexts import (
    cmdlines,
    comm_of,
    flag_characters,
    preempt_characters,
    tgids,
)
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions

from ..buffer.pages import Page

CLOSE = 0xFFFF_FFFF_8100_0040
FASTPATH = 0xFFFF_FFFF_8100_0105
MARKER = 0xFFFF_FFFF_8100_0200


class Symbols:
    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        known = {
            CLOSE: "sys_close",
            FASTPATH: "system_call_fastpath",
            MARKER: "tracing_mark_write",
        }
        return [known.get(address, f"0x{address:x}") for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"{self.names_of(np.array([address], np.uint64))[0]}+0x0/0x40 [mod]"


PORT = arches.load("x86_64")
REGISTERS = list(range(16, 34))
PROBE = parse(
    ["f:mine/opened", "sys_close", "fd=$arg1", "%rax:s8", "at=%rip:symbol"], PORT.facts.abi, 8
)

CONTEXT = TextContext(
    Symbols(),
    tracer="function",
    cpus=2,
    cmdlines={1977: "bash", 31: "khubd"},
    in_buffer=4,
    written=4,
    fprobes={0x400: PROBE},
)


def table(*pages: Page) -> EventTable:
    layout = PageFormat("little", 8, len(PORT.facts.abi.pt_regs))
    return EventTable.merge(
        (cpu, layout.decode(np.frombuffer(page.bytes(), np.uint8).reshape(1, 4096)))
        for cpu, page in enumerate(pages)
    )


def sample() -> EventTable:
    first = Page(stamp=17284_993_652_000)
    first.function(0, CLOSE, FASTPATH, pid=1977, flags=0x01, preempt=0x01)
    first.text(600, MARKER, b"hello\n", pid=99)
    second = Page(stamp=17284_993_653_499)
    second.function(0, CLOSE, 0, pid=0, flags=0x94, preempt=0x1F)
    second.function(1, 0, FASTPATH, pid=-1)
    return table(first, second)


def with_hits() -> EventTable:
    """Return the same events and two hits, one of a removed definition."""
    page = Page(stamp=17284_993_652_000)
    page.function(0, CLOSE, FASTPATH, pid=1977).text(600, MARKER, b"hello\n", pid=99)
    page.hit(9, 0x400, CLOSE, FASTPATH, [0xFFF0, *REGISTERS[1:]], pid=31)
    page.hit(9, 0x7FF, CLOSE, FASTPATH, REGISTERS)
    return table(page)


def text(**options: bool) -> str:
    context = replace(CONTEXT, options=TextOptions(**options))
    return "".join(default_text(sample(), context).file())


def body(**options: bool) -> list[str]:
    context = replace(CONTEXT, options=TextOptions(**options))
    return "".join(default_text(sample(), context).body()).splitlines()


def test_a_whole_trace_has_the_kernels_format() -> None:
    assert text() == (
        "# tracer: function\n"
        "#\n"
        "# entries-in-buffer/entries-written: 4/4   #P:2\n"
        "#\n"
        "#                                _-----=> irqs-off/BH-disabled\n"
        "#                               / _----=> need-resched\n"
        "#                              | / _---=> hardirq/softirq\n"
        "#                              || / _--=> preempt-depth\n"
        "#                              ||| / _-=> migrate-disable\n"
        "#                              |||| /     delay\n"
        "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
        "#              | |         |   |||||     |         |\n"
        "            bash-1977    [000] d..1. 17284.993652: sys_close <-system_call_fastpath\n"
        "           <...>-99      [000] ..... 17284.993653: tracing_mark_write: hello\n"
        "          <idle>-0       [001] bnsf1 17284.993653: sys_close\n"
        "           <XXX>--1      [001] ..... 17284.993654: 0 <-system_call_fastpath\n"
    )


def test_without_irq_info_the_column_is_missing() -> None:
    assert text(irq_info=False).splitlines()[4:7] == [
        "#           TASK-PID     CPU#     TIMESTAMP  FUNCTION",
        "#              | |         |         |         |",
        "            bash-1977    [000] 17284.993652: sys_close <-system_call_fastpath",
    ]


def test_record_tgid_adds_a_column() -> None:
    context = replace(CONTEXT, options=TextOptions(record_tgid=True), tgids={1977: 1976})
    lines = "".join(default_text(sample(), context).file()).splitlines()
    assert lines[4] == "#" + " " * 42 + "_-----=> irqs-off/BH-disabled"
    assert lines[10:14] == [
        "#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION",
        "#              | |           |       |   |||||     |         |",
        "            bash-1977    (   1976) [000] d..1. 17284.993652: "
        "sys_close <-system_call_fastpath",
        "           <...>-99      (-------) [000] ..... 17284.993653: tracing_mark_write: hello",
    ]
    assert text(record_tgid=True, irq_info=False).splitlines()[4:6] == [
        "#           TASK-PID       TGID    CPU#     TIMESTAMP  FUNCTION",
        "#              | |           |       |         |         |",
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"print_parent": False}, "sys_close"),
        ({"sym_addr": True}, f"sys_close <{CLOSE:016x}> <-system_call_fastpath <{FASTPATH:016x}>"),
        (
            {"sym_offset": True},
            "sys_close+0x0/0x40 [mod] <-system_call_fastpath+0x0/0x40 [mod]",
        ),
    ],
)
def test_symbol_options_change_the_names(options: dict[str, bool], line: str) -> None:
    assert body(**options)[0].partition(": ")[2] == line


def test_without_context_only_functions_are_shown() -> None:
    lines = text(context_info=False).splitlines()
    assert lines == [
        "# tracer: function",
        "#",
        "sys_close <-system_call_fastpath",
        "tracing_mark_write: hello",
        "sys_close",
        "0 <-system_call_fastpath",
    ]


def test_verbose_omits_the_header() -> None:
    assert text(verbose=True).splitlines()[2].startswith("            bash-1977")


def test_raw_and_hex_print_numbers() -> None:
    assert body(raw=True) == [
        f"1977 0 17284993652000 {CLOSE:x} {FASTPATH:x}",
        f"99 0 17284993652600 # {MARKER:x} hello",
        f"0 1 17284993653499 {CLOSE:x} 0",
        f"-1 1 17284993653500 0 {FASTPATH:x}",
    ]
    assert body(hex=True)[0] == (
        f"{1977:08x} {0:08x} {17284993652000:016x} {CLOSE:016x} {FASTPATH:016x} "
    )


def test_the_counter_clock_prints_counts() -> None:
    assert time_text(17, True) == "     0.000000"
    assert time_text(17, False) == "           17"
    assert time_text(1_999_999_500, True) == "     2.000000"


@pytest.mark.parametrize(
    ("flags", "characters"),
    [
        (0x00, "..."),
        (0x01, "d.."),
        (0x81, "D.."),
        (0x80, "b.."),
        (0x04, ".n."),
        (0x20, ".p."),
        (0x02, ".l."),
        (0x24, ".N."),
        (0x06, ".b."),
        (0x22, ".L."),
        (0x26, ".B."),
        (0x08, "..h"),
        (0x10, "..s"),
        (0x18, "..H"),
        (0x40, "..z"),
        (0x48, "..Z"),
    ],
)
def test_flags_are_shown_as_letters(flags: int, characters: str) -> None:
    assert flag_characters(flags) == characters


def test_preempt_depths_are_hex() -> None:
    assert preempt_characters(0) == ".."
    assert preempt_characters(0x2B) == "b2"


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_tasks_have_their_saved_names(byteorder: str) -> None:
    entries = np.zeros(abi.SAVED_CMDLINES, abi.saved_cmdline(byteorder))
    entries[3] = (31, 0, b"khubd")
    entries[4] = (7, 5, b"x\xff")
    entries[5] = (8, 8, b"")
    known = cmdlines(entries)
    assert tgids(entries) == {7: 5, 8: 8}
    assert known == {31: "khubd", 7: "x\\xff"}
    assert [comm_of(pid, known) for pid in (31, 0, 8, -2)] == ["khubd", "<idle>", "<...>", "<XXX>"]


def test_cpus_are_announced_only_after_overruns() -> None:
    context = replace(CONTEXT, overran=True)
    lines = "".join(default_text(sample(), context).body()).splitlines()
    assert lines[2] == "##### CPU 1 buffer started ####"
    assert len(lines) == 5
    quiet = replace(context, options=TextOptions(annotate=False))
    assert len("".join(default_text(sample(), quiet).body()).splitlines()) == 4


def test_lost_events_are_shown_before_the_cpus_next_event() -> None:
    lines = "".join(default_text(sample(), CONTEXT).body({0: 12, 1: 0})).splitlines()
    assert lines[0] == "CPU:0 [LOST 12 EVENTS]"
    assert len(lines) == 5


def test_a_corrupted_trace_says_so() -> None:
    lines = default_text(EventTable(), replace(CONTEXT, ftrace_dead=True)).header
    assert lines[2:4] == [
        "# WARNING: FUNCTION TRACING IS CORRUPTED",
        "#          MAY BE MISSING FUNCTION EVENTS",
    ]


def test_a_hit_shows_its_place_and_arguments() -> None:
    def whats(**options: bool) -> list[str]:
        trace = default_text(with_hits(), replace(CONTEXT, options=TextOptions(**options)))
        return [line.partition(": ")[2] for line in trace.texts(2, 4)]

    values = "fd=0x15 arg2=-16 at=0x1f+0x0/0x40 [mod]"
    assert whats() == [f"opened: (sys_close+0x0/0x40 [mod]) {values}", "Unknown type 2047"]
    assert whats(sym_addr=True)[0] == (
        f"opened: (sys_close+0x0/0x40 [mod] <{CLOSE:016x}>) {values}"
    )
    trace = default_text(with_hits(), replace(CONTEXT, options=TextOptions(raw=True)))
    assert [line.split(" ", 3)[3] for line in trace.texts(2, 4)] == ["type: 1024", "2047 ?"]
    trace = default_text(with_hits(), replace(CONTEXT, options=TextOptions(hex=True)))
    assert [line.rpartition("type")[2] for line in trace.texts(2, 4)] == [": 1024", ": 2047"]


def test_a_hit_is_found_by_its_time_and_cpu() -> None:
    trace = TraceExplorer(default_text(with_hits(), CONTEXT))
    assert [trace.hit(row) for row in range(4)] == [
        *(None, None, "17284.993652609 0", "17284.993652618 0")
    ]
    assert trace.site(2) == CLOSE
    counted = TraceExplorer(default_text(with_hits(), replace(CONTEXT, clock_in_ns=False)))
    assert counted.hit(2) == "17284993652609 0"


@pytest.mark.parametrize(
    ("typed", "in_ns", "latest"),
    [
        ("1.5", True, 1_500_000_499),
        ("1.500000", True, 1_500_000_499),
        ("1.5000004", True, 1_500_000_400),
        ("2", True, 2_000_000_499),
        ("17", False, 17),
    ],
)
def test_times_are_parsed_as_the_trace_shows_them(typed: str, in_ns: bool, latest: int) -> None:
    assert latest_time(typed, in_ns) == latest
    assert latest_time(exact_time(latest, in_ns), in_ns) == latest
    shown = time_text(latest, in_ns)
    assert in_ns is False or shown != time_text(latest + 600, in_ns)


@pytest.mark.parametrize(
    ("typed", "in_ns"), [("x", True), ("1.", True), ("-1", True), ("1.5", False)]
)
def test_an_invalid_time_is_refused(typed: str, in_ns: bool) -> None:
    with pytest.raises(UsageError, match="invalid time"):
        latest_time(typed, in_ns)


def test_markers_stay_on_one_row_of_the_screen() -> None:
    page = (
        Page().text(0, MARKER, b"two\nlines\x1b[2J\n").text(0, MARKER, b"\xff").event(0, b"\7" * 8)
    )
    trace = default_text(table(page), CONTEXT)
    assert [line.partition(": ")[2] for line in trace.texts(0, 3)] == [
        "tracing_mark_write: two\\nlines\\x1b[2J",
        "tracing_mark_write: \\xff",
        "Unknown type 0",
    ]
    assert "two\nlines" in "".join(trace.body())


def test_rows_have_their_sites() -> None:
    trace = TraceExplorer(default_text(sample(), CONTEXT))
    assert [trace.site(row) for row in range(4)] == [CLOSE, None, CLOSE, 0]
    assert len(trace) == 4


@settings(deadline=None)
@given(
    needle=st.one_of(
        st.sampled_from(
            ["sys_close", "fast", "idle", "bash", "hello", "close <-", "d..1", "[001]", "XXX", "zz"]
        ),
        st.sampled_from(["opened", "fd", "0x15", "arg2", "khubd", "Unknown", "mod"]),
        st.text("abcdelsy_<-. 0", min_size=1, max_size=4),
    ),
    start=st.integers(-1, 4),
    step=st.sampled_from([1, -1]),
    options=st.fixed_dictionaries(
        {}, optional={name: st.booleans() for name in ("raw", "hex", "context_info", "sym_addr")}
    ),
    hits=st.booleans(),
)
def test_find_searches_the_lines(
    needle: str, start: int, step: int, options: dict[str, bool], hits: bool
) -> None:
    events = with_hits() if hits else sample()
    trace = default_text(events, replace(CONTEXT, options=TextOptions(**options)))
    lines = trace.texts(0, 4)
    rows = range(start, 4) if step > 0 else range(start, -1, -1)
    inside = 0 <= start < 4
    expected = next((row for row in rows if needle in lines[row]), None) if inside else None
    explorer = TraceExplorer(trace)
    assert explorer.find(needle, start, step) == expected
    among = np.array([row for row in range(4) if row != start], np.intp)
    found = explorer.find_all(needle, among)
    assert found is not None
    assert found.tolist() == [row for row in among.tolist() if needle in lines[row]]
