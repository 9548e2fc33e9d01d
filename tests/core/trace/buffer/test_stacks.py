"""Stack trace events: decoding, slicing, joining, and their lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynftrace.core.session.session import Session
from dynftrace.core.trace.buffer.details import Stacks
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.subbuffer import PageFormat
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.graphformat import graph_text
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions
from dynftrace.core.trace.text.tracetext import TraceText

from .pages import Page

OPEN, CREATE, CALL = 0x100, 0x200, 0x300
LINES = [
    "           <...>-1       [000] .....     0.000005: open <-call",
    "           <...>-1       [000] .....     0.000005: <stack trace>",
    " => open",
    " => create",
    " => 0",
    "           <...>-1       [000] .....     0.000005: create <-call",
]


class Symbols:
    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        known = {OPEN: "open", CREATE: "create", CALL: "call"}
        return [known.get(address, f"0x{address:x}") for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"{self.names_of(np.array([address], np.uint64))[0]}+0x0/0x40"


def table(page: Page) -> EventTable:
    layout = PageFormat(page.byteorder, page.pointer_size)
    pages = np.frombuffer(page.bytes(), np.uint8).reshape(1, 4096)
    return EventTable.merge([(0, layout.decode(pages))])


def told(**options: bool) -> TraceText:
    page = Page(stamp=5000).function(0, OPEN, CALL).stack(1, [OPEN, CREATE, 0])
    context = TextContext(Symbols(), TextOptions(**options), tracer="function")
    return default_text(table(page.function(1, CREATE, CALL)), context)


@pytest.mark.parametrize(("order", "size"), [("little", 8), ("big", 8), ("little", 4), ("big", 4)])
def test_stacks_are_decoded(order: str, size: int) -> None:
    page = Page(order, size).stack(0, [3, 1, 2]).function(1, OPEN, CALL).stack(1, [])
    page.stack(1, [7, 8], size=1000).stack(1, [7, 8], size=-1)
    found = table(page.stack(1, list(range(60))))
    assert not found.damaged
    stacks = [found.details.stacks.row(row).tolist() for row in range(5)]
    assert stacks == [[3, 1, 2], [], [7, 8], [], list(range(60))]
    rows = found.events["type"] == 4
    assert found.events["parent"][rows].tolist() == list(range(5))


def test_a_stack_without_a_size_is_damage() -> None:
    page = Page()
    page.event(0, page.entry(4, 0, 0, 1) + bytes(4))
    assert table(page).damaged == 1


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8), st.data())
def test_slicing_and_joining_gives_the_same_stacks(
    rows: list[list[int]], data: st.DataObject
) -> None:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.intp)])
    stacks = Stacks(starts.astype(np.intp), np.array([n for row in rows for n in row], np.uint64))
    at = data.draw(st.integers(0, len(rows)))
    low, high = stacks.cut(slice(0, at)), stacks.cut(slice(at, len(rows)))
    assert [high.row(row).tolist() for row in range(len(high))] == rows[at:]
    joined = Stacks.joined([low, high])
    assert [joined.row(row).tolist() for row in range(len(joined))] == rows


def test_a_stack_has_a_line_for_each_address() -> None:
    text = told()
    assert "".join(text.body()).splitlines() == LINES
    assert text.texts(0, len(text)) == LINES and len(text) == 6
    assert all(text.texts(row, row + 1) == [LINES[row]] for row in range(6))
    assert [text.rows.row_of(event) for event in range(3)] == [0, 1, 5]
    trace = TraceExplorer(text)
    assert [trace.site(row) for row in range(6)] == [OPEN, None, None, None, None, CREATE]
    assert trace.find("create", 0, 1) == 3 and trace.find("create", 3, -1) == 3
    assert trace.find("stack", 5, -1) == 1 and trace.find("create", 4, 1) == 5


def test_symbol_options_change_the_lines() -> None:
    assert told(sym_offset=True).texts(2, 4) == [" => open+0x0/0x40", " => create+0x0/0x40"]
    assert told(sym_addr=True).texts(2, 3) == [" => open <0000000000000100>"]


def test_raw_and_hex_print_only_the_type() -> None:
    assert "".join(told(raw=True).body()).splitlines()[1] == "1 0 5001 type: 4"
    assert "".join(told(hex=True).body()).splitlines()[1].endswith("type: 4")
    assert len(told(raw=True)) == len(told(hex=True)) == 3


@pytest.mark.parametrize(
    ("callers", "lines"),
    [
        ([OPEN, CREATE], ["/* <stack trace>", " => open", " => create */"]),
        ([], ["/* <stack trace> */"]),
    ],
)
def test_in_a_graph_a_stack_is_a_comment(callers: list[int], lines: list[str]) -> None:
    context = TextContext(Symbols(), tracer="function_graph")
    page = Page().function(0, OPEN, CALL).stack(1, callers).text(1, OPEN, b"mark")
    text = graph_text(table(page), context)
    head = " 0)               |  "
    assert text.texts(1, len(text)) == [head + lines[0], *lines[1:], f"{head}/* mark */"]
    raw = graph_text(table(page), replace(context, options=TextOptions(raw=True)))
    assert raw.texts(1, 2) == [f"{head}/* type: 4 */"]


def test_a_follower_gives_the_same_text(session: Session, sh: Callable[[str], str]) -> None:
    sh("echo 64 > buffer_size_kb; echo 1 > options/func_stack_trace")
    sh("echo '*open*' > set_ftrace_filter; echo function > current_tracer")
    for _ in range(3):
        sh("run syscalls")
        followed = "".join(session.boot.array.follow().file())
        assert followed == "".join(session.boot.array.text().file())
        assert followed.count("<stack trace>") > 100
