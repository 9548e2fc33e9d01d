"""Folded calls, compared with the text of the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace.core.session.session import Session
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.select.rowfilter import RowFilter
from dynftrace.core.trace.select.selection import Folds
from dynftrace.core.trace.text.columns import joined
from dynftrace.core.trace.text.graphrows import GraphRows

from ..text.test_graphformat import Story
from .test_rowfilter import graph, slowly
from .test_rowfilter import rows_of_graph as rows_by_text


@cache
def lines() -> list[str]:
    """Return the lines of the graph."""
    return graph().text.texts(0, len(graph()))


def tree() -> TraceExplorer:
    trace = graph()
    assert isinstance(trace.text.rows, GraphRows)
    return trace


def task(line: str) -> tuple[str, ...] | None:
    """Return the task of a line, or None in a box; each CPU has its own idle task."""
    if "|" not in line:
        return None
    cpu, proc = line.split("|")[0].split()
    pid = proc.rpartition("-")[2]
    return (cpu, pid) if pid == "0" else (pid,)


def indent(line: str) -> int:
    """Return the column at which the text of a line begins in the graph."""
    start = line.index("|  ", line.index("|") + 1) + 3
    return len(line) - len(line[start:].lstrip())


@cache
def tasks() -> list[tuple[str, ...] | None]:
    """Return the task of each line."""
    return [task(line) for line in lines()]


def rows_of_events() -> list[int]:
    """Return the rows of events: no boxes and no arrows, which belong to an event."""
    return [row for row, line in enumerate(lines()) if "=====" not in line]


@cache
def openings() -> list[int]:
    """Return the rows that open a call of several lines."""
    return [row for row, line in enumerate(lines()) if line.endswith("() {")]


def some_openings() -> list[int]:
    """Return the openings, with interrupts and the calls around them as often as all others."""
    interrupts = [row for row in openings() if row and "==========>" in lines()[row - 1]]
    around = [
        [at for at in openings() if at < row and tasks()[at] == tasks()[row]][-1:]
        for row in interrupts
    ]
    rare = [*interrupts, *(row for rows in around for row in rows)]
    return [*openings(), *rare * (2 * len(openings()) // len(rare))]


WORDS = ["", "", "cpu:0", "!cpu:0", "task:s*", "!*alloc*", "do_*"]


def rows_of_call(row: int) -> list[int]:
    """Return the rows of the same task from an opening to its closing row, by indentation."""
    depth = indent(lines()[row])
    rows: list[int] = []
    for at in range(row + 1, len(lines())):
        if tasks()[at] != tasks()[row]:
            continue
        line = lines()[at]
        if "=====" in line or indent(line) > depth:
            rows.append(at)
        elif indent(line) == depth and line[depth] == "}":
            arrow = [at + 1] if "<==========" in (lines()[at + 1 : at + 2] or [""])[0] else []
            return [*rows, at, *arrow]
        else:  # not returned; an arrow above belongs to the next interrupt
            return rows[:-1] if rows and "==========>" in lines()[rows[-1]] else rows
    return rows


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.deferred(lambda: st.sampled_from(some_openings())), max_size=6, unique=True),
    st.sampled_from(WORDS),
)
def test_rows_of_a_folded_call_are_hidden_and_counted(chosen: list[int], words: str) -> None:
    text, folds = tree(), Folds()
    for row in chosen:
        found = text.fold(folds, row)
        assert found is not None and found[1] == row
        folds = found[0]
    only = RowFilter.parse(words)
    passing = set(slowly(words, rows_by_text()))
    effective = [row for row in chosen if row in passing]
    hidden: dict[int, set[int]] = {}
    for row in effective:
        arrow = [row - 1] if row and "==========>" in lines()[row - 1] else []
        hidden[row] = {at for at in rows_of_call(row) if at in passing} | set(arrow)
    gone = set().union(*hidden.values())
    selection = text.select(only, folds)
    assert selection.rows.tolist() == sorted(passing - gone)
    assert selection.folds.tolist() == sorted(set(effective) - gone)
    told = dict(zip(selection.folds.tolist(), selection.hides.tolist(), strict=True))
    assert told == {row: len(hidden[row]) for row in told}


@settings(deadline=None, max_examples=25)
@given(st.deferred(lambda: st.sampled_from(rows_of_events())), st.sampled_from(WORDS))
def test_the_call_of_a_row_is_the_innermost_shown_call(row: int, words: str) -> None:
    found = tree().fold(None, row, RowFilter.parse(words))
    passing = set(slowly(words, rows_by_text()))
    around = [at for at in openings() if at <= row and tasks()[at] == tasks()[row] is not None]
    around = [at for at in around if at == row or row in rows_of_call(at)]
    around = [at for at in around if at in passing]
    assert (None if found is None else found[1]) == (around[-1] if around else None)


@pytest.mark.parametrize("words", ["", "!cpu:0", "*read* *write*"])
def test_folding_all_leaves_the_outermost_shown_calls(words: str) -> None:
    text, only = tree(), RowFilter.parse(words)
    selection = text.select(only, text.fold_all(only))
    passing = slowly(words, rows_by_text())
    shown = sorted(set(passing) & set(openings()))
    inner = {at for row in shown for at in rows_of_call(row)}
    assert selection.folds.tolist() == [row for row in shown if row not in inner]
    assert 0 < len(selection.rows) < len(passing) / 2


def test_folding_again_unfolds() -> None:
    text = tree()
    for row in openings()[:5]:
        folds, at = text.fold(None, row + 1) or (Folds(), -1)
        again = text.fold(folds, at)
        assert again is not None and not len(again[0])


def shown_lines(text: TraceExplorer, folds: Folds) -> list[str]:
    selection = text.select(None, folds)
    rows = zip(selection.rows.tolist(), text.text.texts_at(selection.rows), strict=True)
    return [
        line
        if (folded := selection.folded(row)) is None
        else joined(text.folded_fields(row, folded))
        for row, line in rows
    ]


def test_a_folded_call_is_one_row_with_its_duration() -> None:
    story = Story().enter("sys_open", 0).enter("getname", 1).leave("getname", 1, 518)
    story.enter("kfree", 0, cpu=1, pid=8).leave("kfree", 0, 9, cpu=1, pid=8)
    text = TraceExplorer(story.leave("sys_open", 0, 18542).text())
    assert shown_lines(text, text.fold_all()) == [
        " 0) + 18.542 us   |  sys_open() { … 2 rows }",
        " 1)   0.009 us    |  kfree();",
    ]


def test_a_folded_call_without_a_return_says_so() -> None:
    text = TraceExplorer(
        Story().enter("sys_open", 0).enter("getname", 1).leave("getname", 1, 518).text()
    )
    (line,) = shown_lines(text, text.fold_all())
    assert line == " 0)               |  sys_open() { … 1 row, its return is not here"


def test_another_task_on_the_cpu_is_not_part_of_the_call() -> None:
    story = Story().enter("sys_open", 0).enter("getname", 1).leave("getname", 1, 5)
    story.enter("kfree", 0, pid=8).leave("kfree", 0, 9, pid=8).leave("sys_open", 0, 100)
    text = TraceExplorer(story.text())
    boxes = [" ------------------------------------------"] * 2
    assert shown_lines(text, text.fold_all()) == [
        " 0)   0.100 us    |  sys_open() { … 2 rows }",
        boxes[0],
        " 0)     bash-7     =>   kworker-8   ",
        boxes[1],
        "",
        " 0)   0.009 us    |  kfree();",
        boxes[0],
        " 0)   kworker-8    =>     bash-7    ",
        boxes[1],
        "",
    ]


def test_a_fold_whose_opening_is_filtered_out_hides_nothing() -> None:
    story = Story().enter("sys_open", 0).enter("getname", 1).leave("getname", 1, 518)
    text = TraceExplorer(story.leave("sys_open", 0, 18542).text())
    selection = text.select(RowFilter.parse("getname"), text.fold_all())
    assert selection.rows.tolist() == [1] and not len(selection.folds)


def test_a_call_whose_opening_was_overwritten_cannot_be_folded() -> None:
    text = TraceExplorer(
        Story().leave("getname", 1, 5).enter("kfree", 1).leave("kfree", 1, 2).text()
    )
    assert [text.fold(None, row) for row in range(len(text))] == [None, None]
    assert not len(text.fold_all())


def test_folds_stay_when_the_buffer_wraps(session: Session, sh: Callable[[str], str]) -> None:
    sh("echo 64 > buffer_size_kb; echo function_graph > current_tracer; run syscalls")
    before = TraceExplorer(session.boot.array.follow())
    assert isinstance(before.text.rows, GraphRows)
    folds = before.fold_all()
    kept = set(
        before.index.keys(before.text.rows.events[before.select(None, folds).folds]).tolist()
    )
    while before.text.texts(0, 1) == session.boot.array.follow().texts(0, 1):
        sh("echo vfs_read > set_ftrace_filter; run syscalls")
    after = TraceExplorer(session.boot.array.follow())
    assert isinstance(after.text.rows, GraphRows) and after.written > before.written
    rows = after.select(None, folds).folds
    again = set(after.index.keys(after.text.rows.events[rows]).tolist())
    there = after.index.events(folds.keys)
    assert 0 < len(again) < len(kept) and again <= kept
    assert len(again) == np.count_nonzero(there >= 0)
