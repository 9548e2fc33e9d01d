"""Row filters: their words, and masks compared with filtering the lines one by one."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.select.rowfilter import (
    BadNumber,
    FilterError,
    NoPattern,
    RowFilter,
    UnknownKind,
)
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.textcontext import TextContext

LINE = re.compile(
    r" *(?P<comm>.+?)-(?P<pid>\d+) +\[(?P<cpu>\d+)\] \S+ +[\d.]+: (?P<func>[^\s:(]+).*"
)
GRAPH = re.compile(r" (?P<cpu>\d+)\) +(?P<comm>\S+?)-(?P<pid>\d+) +\| .{14}\|  +(?P<what>.*)")


class Row:
    """The fields of a line that filter words match."""

    def __init__(self, cpu: str, pid: str, comm: str, func: str) -> None:
        self.cpu, self.pid, self.comm, self.func = int(cpu), int(pid), comm, func

    def meets(self, word: str) -> bool:
        kind, colon, value = word.partition(":")
        if not colon:
            kind, value = "func", kind if set(kind) & set("*?[") else f"*{kind}*"
        if kind == "task" and not value.isdigit():
            return fnmatchcase(self.comm, value)
        if kind == "func":
            return fnmatchcase(self.func, value)
        number = self.cpu if kind == "cpu" else self.pid
        ends = [part.partition("-") for part in value.split(",")]
        return any(int(low) <= number <= int(high or low) for low, _, high in ends)


def slowly(text: str, rows: list[Row]) -> list[int]:
    """Return the rows that `text` shows, decided row by row."""
    shown = []
    about = {"func": "func", "task": "task", "pid": "task", "cpu": "cpu"}
    words = text.split()
    for number, row in enumerate(rows):
        wanted: dict[str, bool] = {}
        for word in (word for word in words if not word.startswith("!")):
            kind = about[word.partition(":")[0] if ":" in word else "func"]
            wanted[kind] = wanted.get(kind, False) or row.meets(word)
        taken = any(row.meets(word[1:]) for word in words if word.startswith("!"))
        if all(wanted.values()) and not taken:
            shown.append(number)
    return shown


@cache
def traced(*commands: str) -> TraceExplorer:
    """Return the trace after these commands and a workload."""
    session = Session.open(arches.load(arches.DEFAULT))
    shell = Shell(session)
    for command in (*commands, "run syscalls"):
        assert shell.execute(command).status == 0, command
    return TraceExplorer(session.boot.array.follow())


def functions() -> TraceExplorer:
    return traced(
        "echo function > current_tracer",
        "echo 'vfs_*' '*alloc*' schedule 'sys_*' > set_ftrace_filter",
        "echo 1 > options/func_stack_trace",
        "echo 1 > events/syscalls/enable",
        "echo hello > trace_marker",
    )


def graph() -> TraceExplorer:
    return traced(
        "echo function_graph > current_tracer",
        "echo funcgraph-proc > trace_options",
        "echo funcgraph-tail > trace_options",
    )


@cache
def rows_of_lines() -> list[Row]:
    """Read rows from the lines; a stack belongs to the event before it on its CPU."""
    rows: list[Row] = []
    last: dict[int, Row] = {}
    for line in functions().text.texts(0, len(functions())):
        if line.startswith(" => "):
            rows.append(rows[-1])
            continue
        match = LINE.fullmatch(line)
        assert match, line
        row = Row(match["cpu"], match["pid"], match["comm"], match["func"])
        if row.func == "<stack":
            # The event of the first stack may be missing from the trace.
            row.func = last[row.cpu].func if row.cpu in last else ""
        else:
            last[row.cpu] = row
        rows.append(row)
    return rows


@cache
def rows_of_graph() -> list[Row]:
    """Read rows from the lines; boxes and arrows in belong to the line below, arrows out above."""
    text = graph()
    rows: list[Row] = []
    waiting = 0
    for line in text.text.texts(0, len(text)):
        if " <========== " in line:
            rows.append(rows[-1])
            continue
        match = GRAPH.fullmatch(line)
        if match is None or " ==========> " in line:
            waiting += 1
            continue
        what = match["what"].strip("{} /*;")
        pid = int(match["pid"])
        comm = "<idle>" if not pid else (text.text.context.cmdlines or {}).get(pid, "<...>")
        assert comm.startswith(match["comm"])
        row = Row(match["cpu"], match["pid"], comm, what.removesuffix("()").split(":")[0])
        rows += [row] * (waiting + 1)
        waiting = 0
    assert not waiting
    return rows


def words(rows: list[Row]) -> st.SearchStrategy[str]:
    """Words that match some rows, or none."""
    names = sorted({row.func for row in rows if row.func})
    comms = sorted({row.comm for row in rows})
    numbers = sorted({row.pid for row in rows} | {99_999})

    def globs(names: list[str]) -> st.SearchStrategy[str]:
        def made(name: str, how: int, cut: int) -> str:
            cut %= len(name)
            forms = (name, f"{name[:cut]}*", f"*{name[cut:]}", f"{name[:cut]}?{name[cut + 1 :]}")
            return (*forms, f"{name[:cut]}[a-m]{name[cut + 1 :]}", "*", "no_such")[how]

        return st.builds(made, st.sampled_from(names), st.integers(0, 6), st.integers(0, 40))

    listed = st.lists(st.sampled_from(numbers), min_size=1, max_size=3)
    return st.builds(
        str.__add__,
        st.sampled_from(["", "!"]),
        st.one_of(
            globs(names),
            globs(names).map("func:{}".format),
            globs(comms).map("task:{}".format),
            listed.map(lambda pids: "pid:" + ",".join(map(str, pids))),
            st.sampled_from(numbers).map("task:{}".format),
            st.sampled_from(["cpu:0", "cpu:1", "cpu:0,1", "cpu:1-300", "cpu:7"]),
        ),
    )


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_masks_agree_with_the_lines_of_the_function_tracer(data: st.DataObject) -> None:
    rows = rows_of_lines()
    text = " ".join(data.draw(st.lists(words(rows), max_size=4)))
    assert functions().select(RowFilter.parse(text)).rows.tolist() == slowly(text, rows)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_masks_agree_with_the_lines_of_the_graph(data: st.DataObject) -> None:
    rows = rows_of_graph()
    text = " ".join(data.draw(st.lists(words(rows), max_size=4)))
    assert graph().select(RowFilter.parse(text)).rows.tolist() == slowly(text, rows)


def test_the_lines_are_of_many_kinds() -> None:
    """Check the assumption of the two tests above."""
    assert {row.func for row in rows_of_lines()} >= {"vfs_read", "tracing_mark_write", "sys_open"}
    assert any(line.startswith(" => ") for line in functions().text.texts(0, 500))
    boxes = [line for line in graph().text.texts(0, len(graph())) if " => " in line]
    arrows = [line for line in graph().text.texts(0, len(graph())) if "==========" in line]
    assert boxes and arrows


def test_filter_words_are_parsed() -> None:
    only = RowFilter.parse("  vfs_*   !task:bash cpu:0,2-3 ")
    assert only is not None and only.text == "vfs_* !task:bash cpu:0,2-3"
    assert [(word.kind, word.remove) for word in only.words] == [
        ("func", False),
        ("task", True),
        ("cpu", False),
    ]
    assert only.words[2].meant == ((0, 0), (2, 3))
    assert RowFilter.parse("task:12") == RowFilter("task:12", RowFilter.parse("pid:12").words)  # type: ignore[union-attr]
    assert RowFilter.parse(" \t ") is None


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (
            "vfs_* irq:4",
            UnknownKind,
            "unknown kind 'irq:' in irq:4 (choose from: func:, task:, pid:, cpu:)",
        ),
        (":mod:usb", UnknownKind, "unknown kind ':' in :mod:usb"),
        ("cpu:x", BadNumber, "cpu:x needs numbers, such as 2 or 0,2-3"),
        ("cpu:-1", BadNumber, "cpu:-1 needs numbers"),
        ("cpu:3-1", BadNumber, "cpu:3-1 needs numbers"),
        ("pid:1,", BadNumber, "pid:1, needs numbers"),
        ("!pid:bash", BadNumber, "!pid:bash needs numbers"),
        ("cpu:", NoPattern, "cpu: needs a value, such as func:vfs_* or cpu:0"),
        ("a !", NoPattern, "! needs a value, such as func:vfs_* or cpu:0"),
    ],
)
def test_an_invalid_filter_is_refused_in_one_sentence(
    text: str, error: type[FilterError], reason: str
) -> None:
    with pytest.raises(error, match=re.escape(reason)) as raised:
        RowFilter.parse(text)
    assert raised.value.word in text.split()


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    try:
        only = RowFilter.parse(text)
    except FilterError as error:
        assert "\n" not in str(error)
        return
    rows = functions().select(only).rows
    assert (np.diff(rows) > 0).all()


def test_a_damaged_guests_names_and_numbers_are_filtered() -> None:
    class Names:
        def names_of(self, addresses: np.ndarray) -> list[str]:
            return [".vfs_read" for _ in addresses]

        def format(self, address: int) -> str:
            return "?"

    rows = [
        (1, 1, 0, pid, cpu, 0, 0, 1) for pid, cpu in ((-5, 0), (7, 255), (0, 1), (2**31 - 1, 9))
    ]
    table = EventTable(np.array(rows, EVENT), np.array([0, 64], np.uint64))
    text = TraceExplorer(
        default_text(table, TextContext(Names(), cmdlines={7: "a\0b", -5: "x"}, text_prefix="."))
    )

    def shown(words: str) -> list[int]:
        return text.select(RowFilter.parse(words)).rows.tolist()

    assert shown("vfs_*") == shown(".vfs_*") == [0, 1, 2, 3]
    assert shown("task:<XXX>") == [0]
    assert shown("task:a*b") == [1]
    assert shown("task:<idle>") == shown("pid:0") == [2]
    assert shown("task:<...>") == shown(f"pid:{2**31 - 1}-{10**19}") == [3]
    assert shown(f"pid:{2**31},{10**19}") == shown("cpu:256-999") == []
    assert shown("cpu:255-99999999999999999999") == [1]
