"""The layers: core knows no architecture and no console, arches knows core alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {"core": {"core"}, "arches": {"arches", "core"}, "tui": {"tui", "core", "arches"}}
ARCHITECTURE = re.compile(
    r"x86|amd64|i386|ppc|powerpc|mips|arm64|aarch64|riscv|s390", re.IGNORECASE
)


def imports_of(path: Path) -> Iterator[str]:
    """Each module `path` imports, absolute within the project (`core.memory`)."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.removeprefix("dynftrace.") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield (node.module or "").removeprefix("dynftrace.")
                continue
            base = ".".join(package[: len(package) - node.level + 1])
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{name.name}".lstrip(".") for name in node.names)


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_a_layer_imports_only_what_lies_below(folder: str) -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in modules(folder)
        for module in imports_of(path)
        if module.split(".")[0] in ALLOWED and module.split(".")[0] not in ALLOWED[folder]
    }
    assert not found


def test_the_console_takes_only_names_and_loading_from_arches() -> None:
    found = {
        module
        for path in modules("tui")
        for module in imports_of(path)
        if module.split(".")[0] == "arches"
    }
    assert found <= {"arches", "arches.DEFAULT", "arches.load", "arches.names"}


def test_core_names_no_architecture() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in modules("core")
        if path.name != "arch.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ARCHITECTURE.search(line)
    ]
    assert not found


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for folder in ALLOWED
        for path in modules(folder)
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent
