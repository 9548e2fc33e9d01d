"""Walks in a real terminal: three people's, written down in walks/, and the README's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..support.keystone import INSTALLED, REASON
from ..support.prose import ways
from ..support.terminal import Terminal, needs_tmux

WALKS = Path(__file__).parent / "walks"
README = Path(__file__).parents[2] / "README.md"

pytestmark = needs_tmux


@pytest.mark.parametrize("person", sorted(path.stem for path in WALKS.glob("*.txt")))
def test_a_persons_walk(person: str, tmp_path: Path) -> None:
    lines = (WALKS / f"{person}.txt").read_text().splitlines()
    if not INSTALLED and any(line.startswith("type poke") for line in lines):
        pytest.skip(REASON)
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    verb, opening = steps.pop(0)
    assert verb == "open"
    size, _, arguments = opening.partition(" ")
    columns, rows = map(int, size.split("x"))
    with Terminal(tmp_path, arguments, columns, rows) as terminal:
        terminal.see("PAUSED")
        for verb, rest in steps:
            if verb == "see":
                terminal.see(rest)
            elif verb == "type":
                terminal.press("colon", *rest, "enter")
            else:
                assert verb == "press"
                terminal.press(*rest.split())


AFTER = (
    # What the README promises after each of its steps.
    (r"e8(.[0-9a-f]{2}){4} +call __fentry__", r"now.*0f.1f.44.00.00"),
    (r"site schedule ─▶ ftrace_caller ─▶", r"same as: echo function > current_tracer"),
    (r": schedule <-\w+",),
    (r"failed to modify", r"expected", r"ffffffff81[0-9a-f]{6} .*90. nop"),
    (r"undone: poke vfs_read 9090909090",),
)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_the_readmes_five_minutes(columns: int, rows: int, tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    section = text.partition("## Five minutes\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d\. (.+?)(?=^\d\. |^$)", section, re.MULTILINE | re.DOTALL)
    assert len(steps) == len(AFTER)
    with Terminal(tmp_path, "", columns, rows) as terminal:
        terminal.see("PAUSED")
        for step, promised in zip(steps, AFTER, strict=True):
            (keys,) = ways(step)
            terminal.press(*keys)
            for each in promised:
                terminal.see(each)
