"""The documents name only files, folders and modules that exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")),
)

FOLDERS = ("arches", "core", "docs", "dynftrace", "screenshots", "tests", "tui")
"""First folder of a path in the repository; `dynftrace/` is the import package."""

EXAMPLES = frozenset({"tests/test_console.py"})
"""Paths in the project of a reader, not in this one."""

QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?", re.ASCII)
NAME = re.compile(r"dynftrace(?:\.\w+)+", re.ASCII)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def quoted(text: str) -> set[str]:
    """Return the words of `text` in backticks, outside of code blocks."""
    return set(QUOTED.findall(BLOCK.sub("", text)))


def exists(path: str) -> bool:
    """Return whether the repository has `path`, which may be a glob."""
    top = ROOT / ".pkg" if path.startswith("dynftrace/") else ROOT
    return any(top.glob(path.rstrip("/")))


def missing_paths(text: str) -> list[str]:
    """Return the paths of the repository that `text` names and that do not exist."""
    paths = {word for word in quoted(text) if PATH.fullmatch(word) and "/" in word} - EXAMPLES
    return sorted(path for path in paths if path.split("/")[0] in FOLDERS and not exists(path))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    assert missing_paths((ROOT / document).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_has_a_target(document: str) -> None:
    text = BLOCK.sub("", (ROOT / document).read_text(encoding="utf-8"))
    folder = (ROOT / document).parent
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_dotted_name_exists(document: str) -> None:
    for name in quoted((ROOT / document).read_text(encoding="utf-8")):
        if NAME.fullmatch(name):
            pkgutil.resolve_name(name)


def test_the_table_of_folders_lists_every_folder_and_only_existing_files() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", text, re.MULTILINE)
    listed = {folder for first, _ in rows for folder in QUOTED.findall(first)}
    packages = {
        f"{path.parent.relative_to(ROOT)}/"
        for layer in ("core", "tui")
        for path in (ROOT / layer).glob("*/__init__.py")
    }
    # The table has the three parts of the trace, not the folder around them.
    assert packages - {"core/trace/"} - listed == set()
    for first, contents in rows:
        folders = QUOTED.findall(first)
        for word in QUOTED.findall(contents):
            if PATH.fullmatch(word):
                assert any(exists(folder + word) for folder in folders), (first, word)


def test_a_missing_path_is_found() -> None:
    text = "`core/nosuch.py`, `arches/*/nosuch.S`, `core/errors.py`, `arches/*/insn.py`, `a/b`"
    assert missing_paths(text) == ["arches/*/nosuch.S", "core/nosuch.py"]
