"""The machine needs nothing but the contract, and its files form no cycle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import dynftrace.core.machine

FOLDER = Path(dynftrace.core.machine.__file__).parent
CONTRACT = {"abi", "arch", "crash", "errors", "facts"}


def imports(path: Path) -> list[tuple[int, str]]:
    """Level and module of each relative import, those for types alone included."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "level")]
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    return [
        (node.level, name)
        for node in found
        for name in ([node.module] if node.module else [alias.name for alias in node.names])
    ]


def test_no_file_of_the_machine_needs_itself() -> None:
    files = {path.stem: imports(path) for path in FOLDER.glob("*.py")}
    graph = {name: {to for level, to in found if level == 1} for name, found in files.items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(files) > 15


def test_the_machine_imports_the_contract_alone() -> None:
    outside = {to for path in FOLDER.glob("*.py") for level, to in imports(path) if level == 2}
    assert outside == CONTRACT
