"""A kernel built by clang, whose sites are after the prologue and not before the frame."""

from __future__ import annotations

from pathlib import Path

import pytest

from ....support.compiling import graph, opened, trace


@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
def test_callers_and_returns_are_found_in_the_frame(tmp_path: Path, clang: bool) -> None:
    session = opened("ppc32", tmp_path, clang=clang)
    tree = session.boot.tracefs
    tree.write("current_tracer", "function_graph")
    assert session.call("fibonacci", [2]) == 1
    assert graph(session) == [
        *("fibonacci() {", "  fibonacci();", "  fibonacci();", "  add();", "}"),
    ]
    tree.write("set_ftrace_filter", "add")
    tree.write("options/func_stack_trace", "1")
    tree.write("current_tracer", "function")
    assert session.call("fibonacci", [3]) == 2
    assert trace(session) == [
        *("add <-fibonacci", "<stack trace>", " => add", " => fibonacci", " => fibonacci"),
        *("add <-fibonacci", "<stack trace>", " => add", " => fibonacci"),
    ]
