"""The machine imports only the contract, and its files import each other without a cycle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import dynftrace.core.machine

FOLDER = Path(dynftrace.core.machine.__file__).parent
CONTRACT = {"abi", "arch", "crash", "errors", "facts"}


def imports(path: Path) -> list[tuple[int, str]]:
    """Return level and module of each relative import, including imports for types only."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "level")]
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    return [
        (node.level, name)
        for node in found
        for name in ([node.module] if node.module else [alias.name for alias in node.names])
    ]


def test_the_machines_files_have_no_import_cycle() -> None:
    files = {path.stem: imports(path) for path in FOLDER.glob("*.py")}
    graph = {name: {to for level, to in found if level == 1} for name, found in files.items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(files) > 15


def test_the_machine_imports_only_the_contract() -> None:
    outside = {to for path in FOLDER.glob("*.py") for level, to in imports(path) if level == 2}
    assert outside == CONTRACT
