"""The layers and the rooms: permitted imports, and no import cycles.

Imports for types count like all others: to understand a file, a reader has to open
the modules it names, even if the interpreter does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = {"core": {"core"}, "arches": {"arches", "core"}, "tui": {"tui", "core", "arches"}}
"""The imports each folder may have."""

ROOMS = {
    "core": (
        "the contract",
        "payload",
        "elf",
        "port",
        "asm",
        "machine",
        "kernel",
        "ftrace",
        "modules",
        "events",
        "trace/buffer",
        "trace/text",
        "trace/file",
        "trace/select",
        "trace/export",
        "tracefs",
        "views",
        "session",
        "shell",
        "portcheck",
    ),
    "tui": (
        "files",
        "present",
        "explore",
        "saved",
        "tours",
        "console",
        "pictures",
        "library",
        "mount",
        "web",
        "cli",
        "manual",
    ),
}
"""The rooms of a layer, lowest first; a room imports only from itself and earlier rooms."""

CONTRACT = ("abi", "arch", "crash", "distinct", "encoding", "errors", "facts", "memento", "methods")
"""The modules directly in `core/`: the contract of a port and the rest of `core/`."""

NO_TOOLKIT = ("present", "explore", "saved", "tours", "files", "mount")
"""Rooms of `tui/` that must not import the terminal toolkit."""

ARCHITECTURE = re.compile(
    r"x86|amd64|i386|ppc|powerpc|mips|arm64|aarch64|riscv|s390", re.IGNORECASE
)


@cache
def modules() -> dict[str, Path]:
    """Return every module of the three layers by dotted name, such as `core.elf.image`."""
    found = {}
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def source(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


@cache
def named(name: str) -> tuple[str, ...]:
    """Return the absolute imports of module `name`, in order; see `_named`."""
    return tuple(_named(name))


def _named(name: str) -> Iterator[str]:
    """Yield the absolute imports of module `name`; the project's own without `dynftrace.`."""
    package = modules()[name].relative_to(ROOT).parent.parts
    for node in ast.walk(source(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("dynftrace.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            module = "" if module == "dynftrace" else module.removeprefix("dynftrace.")
            yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names)


@cache
def imports(name: str) -> frozenset[str]:
    """Return the project's modules that module `name` imports."""
    found = set()
    for each in named(name):
        own = each if each in modules() else each.rpartition(".")[0]
        if own in modules() and own != name:
            found.add(own)
    return frozenset(found)


def room(name: str) -> str | None:
    """Return the room of a module, or None if it has no room."""
    layer, *path = name.split(".")
    if not path:
        return None
    folder = modules()[name].relative_to(ROOT / layer).parent.parts
    if not folder:
        return "the contract" if layer == "core" and path[0] in CONTRACT else None
    for depth in (2, 1):
        if "/".join(folder[:depth]) in ROOMS[layer]:
            return "/".join(folder[:depth])
    return None


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_lower_layers(layer: str) -> None:
    found = {
        (name, other)
        for name in modules()
        if name.split(".")[0] == layer
        for other in imports(name)
        if other.split(".")[0] not in LAYERS[layer]
    }
    assert not found


@pytest.mark.parametrize("layer", ROOMS)
def test_a_room_imports_only_lower_rooms(layer: str) -> None:
    order = ROOMS[layer]
    wrong, homeless = set(), set()
    for name, path in modules().items():
        if name.split(".")[0] != layer or (path.name == "__init__.py" and room(name) is None):
            continue
        here = room(name)
        if here is None:
            homeless.add(name)
            continue
        for other in imports(name):
            there = room(other) if other.split(".")[0] == layer else None
            if there is not None and order.index(there) > order.index(here):
                wrong.add((name, other))
    assert (wrong, homeless) == (set(), set())


def test_there_are_no_import_cycles() -> None:
    graph = {name: imports(name) for name in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_only_rooms_of_the_console_import_the_toolkit() -> None:
    found = {
        name
        for name in modules()
        if name.split(".")[0] != "tui" or room(name) in NO_TOOLKIT
        for each in named(name)
        if each.split(".")[0] == "textual"
    }
    assert not found


def test_widgets_do_not_import_the_machine() -> None:
    """A widget draws its data; from `core` it imports only errors and models of a trace."""
    found = {
        (name, other)
        for name in modules()
        if name.startswith("tui.console.widgets.")
        for other in imports(name)
        if other.split(".")[0] == "core" and not other.startswith(("core.errors", "core.trace."))
    }
    assert not found


def test_views_do_not_import_the_shell() -> None:
    found = {
        (name, other)
        for name in modules()
        if name.startswith("core.views")
        for other in imports(name)
        if other.startswith("core.shell")
    }
    assert not found


def test_the_console_imports_only_names_and_loading_from_arches() -> None:
    found = {
        each
        for name in modules()
        if name.split(".")[0] == "tui"
        for each in named(name)
        if each.split(".")[0] == "arches"
    }
    assert found <= {"arches", "arches.DEFAULT", "arches.load", "arches.names"}


def test_core_names_no_architecture() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for name, path in modules().items()
        # The porting guide contains many examples.
        if name.split(".")[0] == "core" and name != "core.arch"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ARCHITECTURE.search(line)
    ]
    assert not found


def test_the_recipe_names_every_file_of_a_port() -> None:
    """The recipe is the docstring of `core/arch.py`; images and link scripts have their lines."""
    text = ast.get_docstring(source("core.arch")) or ""
    recipe = {name for line in re.findall(r"^ {4}(\S.*)$", text, re.M) for name in line.split()}
    recipe = {name.rstrip(",") for name in recipe}
    files = {
        path.name
        for path in (ROOT / "arches").glob("*/**/*")
        if path.suffix in {".py", ".S", ".lds"}
        and "guest" not in path.parts
        and path.name != "__init__.py"
    }
    assert files and files <= recipe, files - recipe


def test_every_module_has_a_docstring() -> None:
    assert not [name for name in modules() if not ast.get_docstring(source(name))]
