"""The typed fields of rows; joined, they are the kernel's text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.text.columns import Column, joined
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.graphformat import GraphOptions, graph_text
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions
from dynftrace.core.trace.text.tracetext import TraceText

SETUP = (
    "echo 'f:opened vfs_open $arg1' > dynamic_events",
    "echo 1 > events/enable",
    "echo 1 > options/func_stack_trace",
    "echo 'vfs_*' > set_ftrace_filter",
)


@cache
def traced(tracer: str) -> tuple[EventTable, TextContext]:
    """Return events of every kind, including a marker with control characters."""
    session = Session.open(arches.load(arches.DEFAULT))
    shell = Shell(session)
    for command in (*SETUP, f"echo {tracer} > current_tracer", "run syscalls"):
        assert shell.execute(command).status == 0, command
    session.boot.array.mark("two words\x1b[2J")
    text = session.boot.array.text()
    return text.table, text.context


def fields_join_to_the_text(text: TraceText) -> None:
    rows = np.arange(len(text))
    found = [joined(fields) for fields in text.fields_at(rows)]
    assert found == text.texts_at(rows)
    assert any("words" in each for each in found) or text.context.options.hex


BOOLEANS = {name: st.booleans() for name in TextOptions.__dataclass_fields__}
GRAPH = {name: st.booleans() for name in GraphOptions.__dataclass_fields__}


@settings(deadline=None, max_examples=25)
@given(st.fixed_dictionaries({}, optional=BOOLEANS), st.booleans())
def test_fields_of_events_join_to_the_text(options: dict[str, bool], in_ns: bool) -> None:
    table, context = traced("function")
    context = replace(context, options=TextOptions(**options), clock_in_ns=in_ns)
    fields_join_to_the_text(default_text(table, context))


@settings(deadline=None, max_examples=25)
@given(
    st.fixed_dictionaries({}, optional=BOOLEANS),
    st.fixed_dictionaries({}, optional=GRAPH),
)
def test_fields_of_the_graph_join_to_the_text(
    options: dict[str, bool], graph: dict[str, bool]
) -> None:
    table, context = traced("function_graph")
    context = replace(context, options=TextOptions(**options))
    fields_join_to_the_text(graph_text(table, context, GraphOptions(**graph)))


def columns(text: TraceText, needle: str) -> dict[str, str]:
    """Return the fields of the first row that contains `needle`, by column."""
    row = next(row for row, each in enumerate(text.texts(0, len(text))) if needle in each)
    return {column.name: text for column, text in text.fields_at(np.array([row]))[0]}


def test_fields_of_events_are_in_columns() -> None:
    text = default_text(*traced("function"))
    called = columns(text, "<-")
    assert list(called) == ["TASK", "CPU", "FLAGS", "TIME", "FUNCTION", "CALLER"]
    assert called["FUNCTION"].startswith("vfs_") and called["CALLER"].startswith(" <-")
    hit = columns(text, "opened:")
    assert hit["FUNCTION"] == "opened:" and hit["CALLER"].startswith(" (vfs_open+")
    call = columns(text, "sys_open(")
    assert (call["FUNCTION"], call["TEXT"][0]) == ("sys_open", "(")
    marker = columns(text, "two words")
    assert (marker["FUNCTION"], marker["TEXT"]) == (
        "tracing_mark_write",
        ": two words\\x1b[2J",
    )
    assert columns(text, " => ").keys() == {"TEXT"}


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, "CPU"), ({"proc": True, "cpu": False}, "TASK"), ({"abstime": True}, "TIME")],
)
def test_fields_of_the_graph_are_in_columns(options: dict[str, bool], first: str) -> None:
    text = graph_text(*traced("function_graph"), GraphOptions(**options))
    leaf = columns(text, "();")
    assert next(iter(leaf)) == first
    assert {"OVERHEAD", "DURATION"} <= leaf.keys() and leaf["TEXT"] == "();"
    assert leaf["FUNCTION"].startswith("vfs_") and leaf["DURATION"].endswith(" us    |  ")
    opening = columns(text, "() {")
    assert opening["TEXT"] == "() {" and not opening["DURATION"].strip(" |")
    hit = columns(text, "opened:")
    assert hit["FUNCTION"] == "opened:" and hit["TEXT"] == " */"
    assert Column.FOLD.name not in leaf | opening | hit


def test_titles_are_a_line_of_the_header_if_rows_have_just_their_columns() -> None:
    table, context = traced("function")
    text = default_text(table, context)
    assert joined(text.titles) in text.header
    assert [column.name for column, _ in text.titles] == [
        "TASK",
        "CPU",
        "FLAGS",
        "TIME",
        "FUNCTION",
    ]
    for other in ({"record_tgid": True}, {"irq_info": False}, {"context_info": False}):
        options = TextOptions(**other)
        assert default_text(table, replace(context, options=options)).titles == ()
    assert graph_text(*traced("function_graph")).titles == ()
