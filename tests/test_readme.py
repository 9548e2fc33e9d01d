"""The README's examples agree with the program's output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dynftrace.tui.manual import readme

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_call_site_in_the_readme_is_current(sh: Callable[[str], str]) -> None:
    shown = re.search(r"^```\n(schedule  ip .*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert sh("site schedule").startswith(shown[1])


def test_links_and_pictures_in_the_readme_exist() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_table_of_architectures_is_current() -> None:
    assert readme.made(README) == README, "run `make docs` to write the table again, and review it"
    # GitHub wraps cells, but a column is never narrower than its longest word.
    assert max(len(line) for line in README.splitlines() if line.startswith("| `")) <= 170


def test_a_generated_part_has_exactly_one_place() -> None:
    text = "a\n<!-- x -->\nold | \\1\n<!-- end -->\nb\n"
    assert readme.with_part(text, "x", "new \\1\n") == "a\n<!-- x -->\nnew \\1\n<!-- end -->\nb\n"
    for wrong in ("nothing", text + text):
        with pytest.raises(ValueError, match="expected one place"):
            readme.with_part(wrong, "x", "")
