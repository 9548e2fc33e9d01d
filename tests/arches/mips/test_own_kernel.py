"""Kernels that users build: far sites, and the return addresses that function_graph finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.compiling import graph, opened, trace


@pytest.mark.parametrize("arch", ["mips", "mips64"])
def test_a_kernel_with_long_calls_is_traced_through_mcount(tmp_path: Path, arch: str) -> None:
    session = opened(arch, tmp_path, "-mlong-calls")
    tree = session.boot.tracefs
    tree.write("current_tracer", "function")
    assert session.call("fibonacci", [2]) == 1
    assert [event.split()[0] for event in trace(session)] == [*3 * ["fibonacci"], "add"]
    tree.write("current_tracer", "function_graph")
    assert session.call("fibonacci", [2]) == 1
    assert graph(session) == [
        *("fibonacci() {", "  fibonacci();", "  fibonacci();", "  add();", "}"),
    ]
    tree.write("current_tracer", "nop")
    assert session.call("fibonacci", [9]) == 34
